import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;

/** Kafka's own admin client: an order per line on stdin, an answer in JSON on stdout; see client_contestants.py. */
public class AdminContestant {
    private final Admin admin;

    AdminContestant(Admin admin) {
        this.admin = admin;
    }

    record Told(int groups, int rows, long lag) { }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        try (Admin admin = Admin.create(properties)) {
            AdminContestant contestant = new AdminContestant(admin);
            BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
            for (String line = orders.readLine(); line != null; line = orders.readLine()) {
                double before = contestant.requests();
                long begin = System.nanoTime();
                Told told = contestant.obey(line.split(" "));
                double took = (System.nanoTime() - begin) / 1e6;
                System.out.printf(
                    "{\"ms\": %f, \"requests\": %d, \"groups\": %d, \"rows\": %d, \"lag\": %d}%n",
                    took, (long) (contestant.requests() - before), told.groups, told.rows, told.lag);
            }
        }
    }

    /** The client's own count; it has the greetings of connections in it. */
    private double requests() {
        return admin.metrics().entrySet().stream()
            .filter(each -> each.getKey().name().equals("request-total")
                && each.getKey().group().equals("admin-client-metrics"))
            .mapToDouble(each -> (Double) each.getValue().metricValue())
            .sum();
    }

    private Told obey(String[] order) throws Exception {
        switch (order[0]) {
            case "list":
                return new Told(list(order.length > 1 ? order[1] : "").size(), 0, 0);
            case "describe": {
                Map<String, ConsumerGroupDescription> found = describe();
                int members = found.values().stream().mapToInt(each -> each.members().size()).sum();
                return new Told(found.size(), members, 0);
            }
            case "lag":
                return lag();
            default:
                List<String> groups = List.of(order).subList(1, order.length);
                admin.deleteConsumerGroups(groups).all().get();
                return new Told(groups.size(), 0, 0);
        }
    }

    private Collection<GroupListing> list(String state) throws Exception {
        ListGroupsOptions options = new ListGroupsOptions();
        if (!state.isEmpty()) {
            options.inGroupStates(Set.of(GroupState.parse(state)));
        }
        return admin.listGroups(options).all().get();
    }

    private Map<String, ConsumerGroupDescription> describe() throws Exception {
        List<String> ids = list("").stream().map(GroupListing::groupId).collect(Collectors.toList());
        return admin.describeConsumerGroups(ids).all().get();
    }

    private Told lag() throws Exception {
        Map<String, ConsumerGroupDescription> groups = describe();
        Map<String, ListConsumerGroupOffsetsSpec> specs = new HashMap<>();
        groups.keySet().forEach(each -> specs.put(each, new ListConsumerGroupOffsetsSpec()));
        Map<String, Map<TopicPartition, OffsetAndMetadata>> offsets =
            admin.listConsumerGroupOffsets(specs).all().get();
        Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
        offsets.values().forEach(each -> each.keySet().forEach(at -> wanted.put(at, OffsetSpec.latest())));
        Map<TopicPartition, ListOffsetsResultInfo> ends = admin.listOffsets(wanted).all().get();
        List<Long> lags = new ArrayList<>();
        offsets.values().forEach(each -> each.forEach((at, committed) -> {
            if (committed != null) {
                lags.add(ends.get(at).offset() - committed.offset());
            }
        }));
        return new Told(groups.size(), lags.size(), lags.stream().mapToLong(Long::longValue).sum());
    }
}

// Consumers of Kafka's own Java client, many in one JVM, whose start is most of a consumer's time.
//
// In: a line of JSON per command. Out: a line of JSON per answer, {"value": ...} or {"error": "..."}. A
// consumer polls in a thread of its own, and does what it is told between two polls.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.FutureTask;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class Consumers {
    static final ObjectMapper json = new ObjectMapper();
    static final Map<String, Member> members = new HashMap<>();

    static class Member extends Thread {
        final KafkaConsumer<byte[], byte[]> consumer;
        final ConcurrentLinkedQueue<FutureTask<Object>> tasks = new ConcurrentLinkedQueue<>();
        volatile boolean open = true;
        long read = 0;

        Member(Map<String, Object> config, List<String> topics) {
            ByteArrayDeserializer bytes = new ByteArrayDeserializer();
            consumer = new KafkaConsumer<>(config, bytes, bytes);
            if (topics.get(0).startsWith("^")) {
                consumer.subscribe(new SubscriptionPattern(topics.get(0)));
            } else {
                consumer.subscribe(topics);
            }
            setDaemon(true);
            start();
        }

        @Override
        public void run() {
            while (open) {
                FutureTask<Object> task = tasks.poll();
                if (task != null) {
                    task.run();
                } else {
                    read += consumer.poll(Duration.ofMillis(20)).count();
                }
            }
            consumer.close();
        }

        Object tell(Callable<Object> what) throws Exception {
            FutureTask<Object> task = new FutureTask<>(what);
            tasks.add(task);
            return task.get();
        }

        Object close() throws Exception {
            open = false;
            join();
            return null;
        }

        Object committed() {
            Map<Integer, Long> offsets = new TreeMap<>();
            consumer.committed(consumer.assignment()).forEach(
                (partition, at) -> offsets.put(partition.partition(), at == null ? -1 : at.offset()));
            return new ArrayList<>(offsets.values());
        }
    }

    static Object open(JsonNode command) {
        Map<String, Object> config = new HashMap<>();
        command.get("config").properties().forEach(
            each -> config.put(each.getKey(), each.getValue().asText()));
        List<String> topics = new ArrayList<>();
        command.get("topics").forEach(each -> topics.add(each.asText()));
        members.put(command.get("name").asText(), new Member(config, topics));
        return null;
    }

    // Have a partition's one replica, and so its leader, on another broker.
    static Object move(JsonNode command) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", command.get("bootstrap").asText());
        TopicPartition partition = new TopicPartition(command.get("topic").asText(), 0);
        List<Integer> replicas = Collections.singletonList(command.get("to").asInt());
        try (Admin admin = Admin.create(config)) {
            admin.alterPartitionReassignments(
                Map.of(partition, Optional.of(new NewPartitionReassignment(replicas)))).all().get();
        }
        return null;
    }

    static Object done(JsonNode command) throws Exception {
        String what = command.get("do").asText();
        if (what.equals("open")) {
            return open(command);
        }
        if (what.equals("move")) {
            return move(command);
        }
        Member member = members.get(command.get("name").asText());
        switch (what) {
            case "assigned": return member.tell(() -> member.consumer.assignment().size());
            case "read": return member.tell(() -> member.read);
            case "commit": return member.tell(() -> {
                member.consumer.commitSync();
                return null;
            });
            case "committed": return member.tell(member::committed);
            case "close": return member.close();
            default: throw new IllegalArgumentException(what);
        }
    }

    public static void main(String[] unused) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> answer = new HashMap<>();
            try {
                answer.put("value", done(json.readTree(line)));
            } catch (Exception failed) {
                answer.put("error", String.valueOf(failed));
            }
            answers.println(json.writeValueAsString(answer));
            answers.flush();
        }
        System.exit(0);
    }
}

// What an application does with Kafka's Java client, for kafka-clients of every version from 2.0.
//
// Compiled once, with kafka-clients 2.0.1, and run with any later one on the class path. Methods that later
// versions added or removed are called by reflection. In: a bootstrap address, a topic and a group, both new, and the
// number of brokers. Out: one line of JSON.

import java.io.InputStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class EveryVersion {
    static final int PARTITIONS = 2;
    static final int RECORDS = 10;

    final Map<String, Object> seen = new LinkedHashMap<>();
    final String bootstrap;
    final String topic;
    final String group;

    EveryVersion(String bootstrap, String topic, String group) {
        this.bootstrap = bootstrap;
        this.topic = topic;
        this.group = group;
    }

    Properties config() {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        return config;
    }

    void run(short replicas) throws Exception {
        seen.put("version", version());
        try (AdminClient admin = AdminClient.create(config())) {
            describeCluster(admin);
            NewTopic created = new NewTopic(topic, PARTITIONS, replicas);
            admin.createTopics(Collections.singleton(created)).all().get();
            describeTopic(admin);
            produce();
            consume(admin);
            transact(admin, replicas);
            seen.put("state after", describeGroup(admin).state().toString());
            admin.deleteConsumerGroups(Collections.singleton(group)).all().get();
            seen.put("group listed after", isListed(admin));
            admin.deleteTopics(Collections.singleton(topic)).all().get();
            seen.put("topic listed after", admin.listTopics().names().get().contains(topic));
            describeFeatures(admin);
        }
    }

    // From the jar itself: the class that reads it is Kafka's own, and has moved.
    static String version() throws Exception {
        Properties properties = new Properties();
        try (InputStream in = AdminClient.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            properties.load(in);
        }
        return properties.getProperty("version");
    }

    void describeCluster(AdminClient admin) throws Exception {
        DescribeClusterResult cluster = admin.describeCluster();
        seen.put("cluster id", cluster.clusterId().get());
        seen.put("brokers", cluster.nodes().get().size());
        seen.put("controller is a broker", cluster.nodes().get().contains(cluster.controller().get()));
    }

    void describeTopic(AdminClient admin) throws Exception {
        Object byName = admin.describeTopics(Collections.singleton(topic));
        boolean ids = has(byName, "allTopicNames");
        TopicDescription described =
            (TopicDescription) got(call(byName, ids ? "allTopicNames" : "all")).get(topic);
        seen.put("partitions", described.partitions().size());
        seen.put("replicas", described.partitions().get(0).replicas().size());
        seen.put("in sync", described.partitions().get(0).isr().size());
        // Topic ids: KIP-516, in the admin client since 3.1.
        seen.put("by id", ids ? describeById(admin, call(described, "topicId")) : null);
    }

    String describeById(AdminClient admin, Object id) throws Exception {
        Class<?> collection = Class.forName("org.apache.kafka.common.TopicCollection");
        Object ids = collection.getMethod("ofTopicIds", Collection.class)
            .invoke(null, Collections.singleton(id));
        Object byId = AdminClient.class.getMethod("describeTopics", collection).invoke(admin, ids);
        TopicDescription described = (TopicDescription) got(call(byId, "allTopicIds")).get(id);
        return described.name() + "/" + described.partitions().size();
    }

    void produce() throws Exception {
        StringSerializer text = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config(), text, text)) {
            for (int i = 0; i < RECORDS; i++) {
                producer.send(new ProducerRecord<>(topic, i % PARTITIONS, null, "value " + i));
            }
            producer.flush();
        }
    }

    void consume(AdminClient admin) throws Exception {
        Properties config = config();
        config.put("group.id", group);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        StringDeserializer text = new StringDeserializer();
        TreeSet<String> read = new TreeSet<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config, text, text)) {
            consumer.subscribe(Collections.singleton(topic));
            while (read.size() < RECORDS) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    read.add(record.value());
                }
            }
            consumer.commitSync();
            ConsumerGroupDescription described = describeGroup(admin);
            seen.put("state", described.state().toString());
            seen.put("members", described.members().size());
            seen.put("assigned",
                described.members().iterator().next().assignment().topicPartitions().size());
            seen.put("group listed", isListed(admin));
        }
        seen.put("read", read);
        Map<String, Object> offsets = new TreeMap<>();
        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().forEach(
            (partition, at) -> offsets.put(String.valueOf(partition.partition()), at.offset()));
        seen.put("committed", offsets);
    }

    // Two transactions are committed and the one between them is aborted.
    void transact(AdminClient admin, short replicas) throws Exception {
        TopicPartition partition = new TopicPartition(topic + "-transactions", 0);
        NewTopic created = new NewTopic(partition.topic(), 1, replicas);
        admin.createTopics(Collections.singleton(created)).all().get();
        Properties config = config();
        config.put("transactional.id", topic);
        StringSerializer text = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config, text, text)) {
            producer.initTransactions();
            for (String value : Arrays.asList("first", "aborted", "last")) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(partition.topic(), value)).get();
                if (value.equals("aborted")) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        config = config();
        config.put("isolation.level", "read_committed");
        StringDeserializer read = new StringDeserializer();
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config, read, read)) {
            consumer.assign(Collections.singleton(partition));
            consumer.seekToBeginning(Collections.singleton(partition));
            while (!values.contains("last")) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    values.add(record.value());
                }
            }
        }
        seen.put("read committed", values);
    }

    ConsumerGroupDescription describeGroup(AdminClient admin) throws Exception {
        return admin.describeConsumerGroups(Collections.singleton(group)).all().get().get(group);
    }

    boolean isListed(AdminClient admin) throws Exception {
        Collection<ConsumerGroupListing> groups = admin.listConsumerGroups().all().get();
        return groups.stream().anyMatch(each -> each.groupId().equals(group));
    }

    // KIP-584, in the admin client since 2.7.
    void describeFeatures(AdminClient admin) throws Exception {
        if (!has(admin, "describeFeatures")) {
            seen.put("finalized", null);
            seen.put("supported", null);
            return;
        }
        Object result = AdminClient.class.getMethod("describeFeatures").invoke(admin);
        Object features = ((KafkaFuture<?>) call(result, "featureMetadata")).get();
        Map<String, Object> finalized = new TreeMap<>();
        for (Map.Entry<?, ?> each : ((Map<?, ?>) call(features, "finalizedFeatures")).entrySet()) {
            finalized.put(each.getKey().toString(), call(each.getValue(), "maxVersionLevel"));
        }
        Map<String, Object> supported = new TreeMap<>();
        for (Map.Entry<?, ?> each : ((Map<?, ?>) call(features, "supportedFeatures")).entrySet()) {
            List<Object> range =
                Arrays.asList(call(each.getValue(), "minVersion"), call(each.getValue(), "maxVersion"));
            supported.put(each.getKey().toString(), range);
        }
        seen.put("finalized", finalized);
        seen.put("supported", supported);
    }

    static boolean has(Object object, String method) {
        return Arrays.stream(object.getClass().getMethods()).anyMatch(each -> each.getName().equals(method));
    }

    static Object call(Object object, String method) throws Exception {
        return object.getClass().getMethod(method).invoke(object);
    }

    static Map<?, ?> got(Object future) throws Exception {
        return new HashMap<>((Map<?, ?>) ((KafkaFuture<?>) future).get());
    }

    // No name or value here has a character that JSON escapes.
    static String json(Object value) {
        if (value instanceof Map) {
            return ((Map<?, ?>) value).entrySet().stream()
                .map(each -> json(each.getKey()) + ":" + json(each.getValue()))
                .collect(Collectors.joining(",", "{", "}"));
        }
        if (value instanceof Collection) {
            return ((Collection<?>) value).stream().map(EveryVersion::json)
                .collect(Collectors.joining(",", "[", "]"));
        }
        return value instanceof String ? "\"" + value + "\"" : String.valueOf(value);
    }

    public static void main(String[] words) throws Exception {
        EveryVersion version = new EveryVersion(words[0], words[1], words[2]);
        version.run(Short.parseShort(words[3]));
        System.out.println(json(version.seen));
    }
}

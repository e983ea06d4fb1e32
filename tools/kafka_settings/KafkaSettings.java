import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Prints every topic, broker and group setting of the Kafka on the class path as JSON, in a fixed order. */
public final class KafkaSettings {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        ObjectNode all = JSON.createObjectNode();
        ObjectNode topics = all.putObject("topic");
        for (var each : ordered(LogConfig.configKeys()).entrySet()) {
            ObjectNode node = describe(topics, each.getValue());
            ArrayNode names = node.putArray("synonyms");
            for (ConfigSynonym synonym : ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS
                    .getOrDefault(each.getKey(), List.of())) {
                // A converter multiplies: hours or minutes into milliseconds.
                names.addArray().add(synonym.name()).add(factor(synonym));
            }
        }
        ObjectNode brokers = all.putObject("broker");
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        for (var each : new TreeMap<>(AbstractKafkaConfig.CONFIG_DEF.configKeys()).entrySet()) {
            ObjectNode node = describe(brokers, each.getValue());
            node.put("update_mode", modes.getOrDefault(each.getKey(), "read-only"));
            ArrayNode names = node.putArray("synonyms");
            DynamicBrokerConfig.brokerConfigSynonyms(each.getKey(), true)
                .forEach(name -> names.addArray().add(name).add(1));
        }
        // Quotas of replication are dynamic without being settings of a broker's file.
        for (String name : new TreeMap<>(modes).keySet()) {
            if (!brokers.has(name)) {
                all.withArray("only_dynamic").addArray().add(name).add(modes.get(name));
            }
        }
        ObjectNode groups = all.putObject("group");
        for (var each : new TreeMap<>(GroupConfig.CONFIG_DEF.configKeys()).entrySet()) {
            ArrayNode names = describe(groups, each.getValue()).putArray("synonyms");
            GroupConfig.brokerSynonym(each.getKey()).ifPresent(name -> names.addArray().add(name).add(1));
        }
        System.out.println(JSON.writeValueAsString(all));
    }

    /** The order in which a broker lists settings: that of Scala's hash map, which tools print unsorted. */
    private static Map<String, ConfigDef.ConfigKey> ordered(Map<String, ConfigDef.ConfigKey> keys) {
        var names = new scala.collection.mutable.HashMap<String, String>();
        new HashMap<>(keys).forEach((name, key) -> {
            if (!key.internalConfig) {
                names.put(name, name);
            }
        });
        Map<String, ConfigDef.ConfigKey> found = new LinkedHashMap<>();
        for (var each = names.keysIterator(); each.hasNext();) {
            String name = each.next();
            found.put(name, keys.get(name));
        }
        new TreeMap<>(keys).forEach(found::putIfAbsent);
        return found;
    }

    private static int factor(ConfigSynonym synonym) {
        return Integer.parseInt(synonym.converter().apply("1"));
    }

    private static ObjectNode describe(ObjectNode parent, ConfigDef.ConfigKey key) throws Exception {
        ObjectNode node = parent.putObject(key.name);
        node.put("type", key.type.name());
        node.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
        if (key.internalConfig) {
            node.put("internal", true);
        }
        if (key.validator != null) {
            validator(node.putObject("validator"), key.validator);
        }
        node.put("documentation", key.documentation);
        return node;
    }

    private static void validator(ObjectNode node, ConfigDef.Validator validator) throws Exception {
        node.put("kind", validator.getClass().getSimpleName());
        node.put("text", validator.toString());
        if (validator instanceof ConfigDef.Range) {
            for (String bound : List.of("min", "max")) {
                Object value = field(validator, bound);
                node.put(bound, value == null ? null : value.toString());
            }
        } else if (validator instanceof ConfigDef.ValidString) {
            node.set("values", JSON.valueToTree(field(validator, "validStrings")));
        } else if (validator instanceof ConfigDef.CaseInsensitiveValidString) {
            node.set("values", JSON.valueToTree(field(validator, "validStrings")));
        } else if (validator instanceof ConfigDef.ValidList) {
            Object strings = field(validator, "validString");
            node.set("values", JSON.valueToTree(field(strings, "validStrings")));
            node.put("empty", (boolean) field(validator, "isEmptyAllowed"));
        }
    }

    private static Object field(Object object, String name) throws Exception {
        Field field = object.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(object);
    }
}

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.zip.GZIPOutputStream;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Writes protocol vectors with Apache Kafka's own message classes: bytes and JSON of made-up values.
 *
 * Usage: java GoldenVectors DIRECTORY API...   (class path: the jars of Apache Kafka)
 * Values are made from the schemas inside kafka-clients, read by Kafka's JSON converters and written by
 * Kafka's serializers. The same call writes the same files. Counts per message go to standard output.
 */
public final class GoldenVectors {
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;
    private static final ObjectMapper MAPPER =
        new ObjectMapper().configure(JsonParser.Feature.ALLOW_COMMENTS, true);

    private final Map<String, JsonNode> structs = new HashMap<>();
    private final short version;
    private final String kind;
    private final Random random;

    private GoldenVectors(short version, String kind, long seed) {
        this.version = version;
        this.kind = kind;
        this.random = new Random(seed);
    }

    public static void main(String[] args) throws Exception {
        Map<String, Map<String, Integer>> counts = new TreeMap<>();
        for (int i = 1; i < args.length; i++) {
            Path file = Path.of(args[0], args[i] + ".jsonl.gz");
            try (PrintWriter out = new PrintWriter(new OutputStreamWriter(
                    new GZIPOutputStream(Files.newOutputStream(file)), StandardCharsets.UTF_8))) {
                counts.put(args[i], new TreeMap<>());
                for (String side : new String[] {"Request", "Response"}) {
                    write(args[i], side, out, counts.get(args[i]));
                }
            }
        }
        System.out.println(MAPPER.writerWithDefaultPrettyPrinter().writeValueAsString(counts));
    }

    private static void write(String api, String side, PrintWriter out, Map<String, Integer> counts) throws Exception {
        String schemaName = "/common/message/" + api + side + ".json";
        JsonNode schema = MAPPER.readTree(ApiMessage.class.getResourceAsStream(schemaName));
        String[] range = schema.get("validVersions").asText().split("-");
        for (short v = Short.parseShort(range[0]); v <= Short.parseShort(range[range.length - 1]); v++) {
            Set<String> seen = new HashSet<>();
            for (String kind : new String[] {"default", "minimal", "full", "nulls", "extreme", "random-1", "random-2"}) {
                ApiMessage message = make(api, side, schema, v, kind);
                ObjectNode row = row(api, side, schema.get("apiKey").asInt(), v, kind, message);
                if (seen.add(row.get("hex").asText())) {
                    out.println(MAPPER.writeValueAsString(row));
                    counts.merge(side.toLowerCase() + " v" + v, 1, Integer::sum);
                }
            }
        }
    }

    private static ApiMessage make(String api, String side, JsonNode schema, short v, String kind) throws Exception {
        String data = "org.apache.kafka.common.message." + api + side + "Data";
        if (kind.equals("default")) {
            return (ApiMessage) Class.forName(data).getConstructor().newInstance();
        }
        GoldenVectors maker = new GoldenVectors(v, kind, (api + side + v + kind).hashCode());
        for (JsonNode common : schema.path("commonStructs")) {
            maker.structs.put(common.get("name").asText(), common.get("fields"));
        }
        JsonNode value = maker.struct(schema.get("fields"), 0);
        return (ApiMessage) Class.forName(data + "JsonConverter")
            .getMethod("read", JsonNode.class, short.class).invoke(null, value, v);
    }

    private static ObjectNode row(String api, String side, int key, short v, String kind, ApiMessage message)
            throws Exception {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, v));
        message.write(new ByteBufferAccessor(buffer), cache, v);
        String data = message.getClass().getName();
        JsonNode json = (JsonNode) Class.forName(data + "JsonConverter")
            .getMethod("write", message.getClass(), short.class).invoke(null, message, v);
        ObjectNode row = NODES.objectNode();
        row.put("api", api).put("key", key).put("kind", side.toLowerCase());
        row.put("version", v).put("case", kind).put("hex", HexFormat.of().formatHex(buffer.array()));
        row.set("json", json);
        return row;
    }

    private ObjectNode struct(JsonNode fields, int index) {
        ObjectNode node = NODES.objectNode();
        for (JsonNode field : fields) {
            if (within(field.get("versions").asText())) {
                String name = field.get("name").asText();
                node.set(Character.toLowerCase(name.charAt(0)) + name.substring(1), value(field, index));
            }
        }
        return node;
    }

    private JsonNode value(JsonNode field, int index) {
        String type = field.get("type").asText();
        boolean nullable = within(field.path("nullableVersions").asText("none"));
        if (nullable && (kind.equals("nulls") || kind.equals("minimal") || random() && random.nextInt(4) == 0)) {
            return NODES.nullNode();
        }
        if (!type.startsWith("[]")) {
            return scalar(type, field.path("fields"), field.get("name").asText(), index);
        }
        ArrayNode array = NODES.arrayNode();
        int size = switch (kind) {
            case "minimal" -> 0;
            case "nulls" -> 1;
            case "extreme" -> 130;
            case "full" -> 3;
            default -> random.nextInt(4);
        };
        boolean nested = field.has("fields") || structs.containsKey(type.substring(2));
        for (int i = 0; i < (nested ? Math.min(size, 3) : size); i++) {
            array.add(scalar(type.substring(2), field.path("fields"), field.get("name").asText(), i));
        }
        return array;
    }

    private JsonNode scalar(String type, JsonNode fields, String name, int index) {
        boolean extreme = kind.equals("extreme");
        boolean small = kind.equals("minimal") || kind.equals("nulls");
        switch (type) {
            case "bool": return NODES.booleanNode(!small && (extreme || random.nextBoolean()));
            case "int8": return NODES.numberNode(number(Byte.MIN_VALUE, Byte.MAX_VALUE, index));
            case "int16": return NODES.numberNode(number(Short.MIN_VALUE, Short.MAX_VALUE, index));
            case "uint16": return NODES.numberNode(number(0, 65535, index));
            case "int32": return NODES.numberNode(number(Integer.MIN_VALUE, Integer.MAX_VALUE, index));
            case "int64": return NODES.numberNode(number(Long.MIN_VALUE, Long.MAX_VALUE, index));
            case "float64": return NODES.numberNode(small ? 0.0 : extreme ? Double.MAX_VALUE : random.nextInt(1 << 20) / 8.0);
            case "uuid": return NODES.textNode(small ? Uuid.ZERO_UUID.toString()
                : new Uuid(random.nextLong(), random.nextLong()).toString());
            case "bytes": {
                byte[] bytes = new byte[small ? 0 : extreme ? 200 : random.nextInt(40)];
                random.nextBytes(bytes);
                return NODES.textNode(Base64.getEncoder().encodeToString(bytes));
            }
            case "string":
                return NODES.textNode(small ? "" : extreme ? name.repeat(1 + 127 / name.length()) + index
                    : name.toLowerCase() + "-" + (index % 2 == 0 ? "größe" : "日本") + random.nextInt(1000));
            default: return struct(fields.isMissingNode() ? structs.get(type) : fields, index);
        }
    }

    private long number(long lowest, long highest, int index) {
        return switch (kind) {
            case "minimal", "nulls" -> 0;
            case "extreme" -> index % 2 == 0 ? highest : lowest;
            case "full" -> 1 + random.nextInt(100);
            default -> lowest == 0 ? random.nextInt((int) highest) : random.nextLong() % (highest / 2 + 1);
        };
    }

    private boolean random() {
        return kind.startsWith("random");
    }

    private boolean within(String versions) {
        if (versions.equals("none")) {
            return false;
        }
        if (versions.endsWith("+")) {
            return version >= Integer.parseInt(versions.substring(0, versions.length() - 1));
        }
        String[] range = versions.split("-");
        return version >= Integer.parseInt(range[0]) && version <= Integer.parseInt(range[range.length - 1]);
    }
}

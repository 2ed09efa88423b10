import java.lang.reflect.*;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.metadata.*;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.utils.ImplicitLinkedHashMultiCollection;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Prints tests/wire/data/metadata-records-3.9.1.tsv with Kafka's own classes: every record of the metadata log in each
 * of its versions, with several contents. Columns: content, bytes as MetadataRecordSerde writes them, JSON as
 * kafka-dump-log prints it. The fields are found by reflection, so that none is forgotten.
 *
 * java -cp "$LIBS/*" MetadataRecords.java > metadata-records-3.9.1.tsv
 * where LIBS is the folder that scripts/fetch-kafka.sh fills.
 */
public class MetadataRecords {
    enum Content { DEFAULT, FULL, NULL, EMPTY, LARGE }

    static long seed;

    static long next(int bits) {
        seed = seed * 6364136223846793005L + 1442695040888963407L;
        return seed >> (64 - bits);
    }

    static String text(Content content) {
        if (content == Content.EMPTY) return "";
        String text = "tèxt-\u7fa4\ud83d\ude00\"\\\n\u001f" + Math.abs(next(16));
        return content == Content.LARGE ? text.repeat(8) : text;
    }

    static Object value(Type type, Content content) throws Exception {
        boolean empty = content == Content.EMPTY;
        if (type == boolean.class) return !empty && (content != Content.FULL || next(1) == 0);
        if (type == byte.class) return empty ? (byte) 0 : (byte) next(8);
        if (type == short.class) return empty ? (short) 0 : (short) next(16);
        if (type == int.class) return empty ? 0 : (int) next(32);
        if (type == long.class) return empty ? 0L : next(64);
        if (type == double.class) return empty ? 0.0 : content == Content.LARGE ? 1.25e300 : next(20) / 8.0;
        if (type == Uuid.class) return empty ? Uuid.ZERO_UUID : new Uuid(next(64), next(64));
        if (type == String.class) return text(content);
        if (type == byte[].class) {
            byte[] bytes = new byte[empty ? 0 : content == Content.LARGE ? 200 : 5];
            for (int i = 0; i < bytes.length; i++) bytes[i] = (byte) next(8);
            return bytes;
        }
        int count = content == Content.LARGE ? 130 : 3;
        if (type instanceof ParameterizedType) {
            List<Object> list = new ArrayList<>();
            Type item = ((ParameterizedType) type).getActualTypeArguments()[0];
            Type primitive = item == Integer.class ? int.class : item;
            int times = empty ? 0 : item == Integer.class || item == Uuid.class ? count : 3;
            for (int i = 0; i < times; i++) list.add(value(primitive, content));
            return list;
        }
        Class<?> cls = (Class<?>) type;
        if (ImplicitLinkedHashMultiCollection.class.isAssignableFrom(cls)) {
            @SuppressWarnings("unchecked")
            ImplicitLinkedHashMultiCollection<ImplicitLinkedHashMultiCollection.Element> all =
                (ImplicitLinkedHashMultiCollection<ImplicitLinkedHashMultiCollection.Element>) cls.getConstructor().newInstance();
            Class<?> item = ((Class<?>) ((ParameterizedType) cls.getGenericSuperclass()).getActualTypeArguments()[0]);
            for (int i = 0; i < (empty ? 0 : 3); i++)
                all.add((ImplicitLinkedHashMultiCollection.Element) filled(item.getConstructor().newInstance(), content, (short) 0));
            return all;
        }
        return filled(cls.getConstructor().newInstance(), content, (short) 0);
    }

    static byte[] bytes(Object message, short version) {
        return MessageUtil.toByteBuffer((Message) message, version).array();
    }

    /** Sets each field that this version has; a port is an unsigned short in an int. */
    static Object filled(Object message, Content content, short version) throws Exception {
        Method[] methods = message.getClass().getMethods();
        Arrays.sort(methods, Comparator.comparing(Method::getName));
        for (Method method : methods) {
            if (!method.getName().startsWith("set") || method.getParameterCount() != 1
                || method.getReturnType() != message.getClass()) continue;
            Type type = method.getGenericParameterTypes()[0];
            String getter = method.getName().substring(3, 4).toLowerCase() + method.getName().substring(4);
            Object before = message.getClass().getMethod(getter).invoke(message);
            Object value = content == Content.NULL && !((Class<?>) raw(type)).isPrimitive() ? null : value(type, content);
            if (getter.equals("port")) value = (int) (next(32) & 0xFFFF);
            try {
                method.invoke(message, value);
                bytes(message, version);
            } catch (UnsupportedVersionException | NullPointerException impossible) {
                method.invoke(message, before);
            }
        }
        return message;
    }

    static Type raw(Type type) {
        return type instanceof ParameterizedType ? ((ParameterizedType) type).getRawType() : type;
    }

    public static void main(String[] args) throws Exception {
        MetadataRecordSerde serde = new MetadataRecordSerde();
        for (MetadataRecordType type : MetadataRecordType.values()) {
            for (short version = type.lowestSupportedVersion(); version <= type.highestSupportedVersion(); version++) {
                for (Content content : Content.values()) {
                    seed = type.id() * 1000L + version * 10 + content.ordinal();
                    ApiMessage message = type.newMetadataRecord();
                    if (content != Content.DEFAULT) filled(message, content, version);
                    ApiMessageAndVersion record = new ApiMessageAndVersion(message, version);
                    ObjectSerializationCache cache = new ObjectSerializationCache();
                    byte[] raw = new byte[serde.recordSize(record, cache)];
                    serde.write(record, cache, new ByteBufferAccessor(java.nio.ByteBuffer.wrap(raw)));
                    System.out.println(content + "\t" + HexFormat.of().formatHex(raw) + "\t{\"type\":\"" + type + "\",\"version\":"
                        + version + ",\"data\":" + MetadataJsonConverters.writeJson(message, version) + "}");
                }
            }
        }
    }
}

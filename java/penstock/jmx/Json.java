package penstock.jmx;

import java.lang.reflect.Array;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.management.ObjectName;
import javax.management.openmbean.CompositeData;

/** JSON texts: of requests, which are small, and of what a broker answers. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Maps, lists, strings, longs, doubles, booleans and null. Throws IllegalArgumentException for anything else. */
    static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.value();
        json.blanks();
        if (json.at != text.length()) {
            throw json.wrong();
        }
        return value;
    }

    private Object value() {
        blanks();
        switch (peek()) {
            case '{':
                return object();
            case '[':
                return list();
            case '"':
                return string();
            case 't':
                return word("true", Boolean.TRUE);
            case 'f':
                return word("false", Boolean.FALSE);
            case 'n':
                return word("null", null);
            default:
                return number();
        }
    }

    private Map<String, Object> object() {
        Map<String, Object> found = new LinkedHashMap<>();
        at++;
        blanks();
        while (peek() != '}') {
            String key = string();
            blanks();
            expect(':');
            found.put(key, value());
            blanks();
            if (peek() == ',') {
                at++;
                blanks();
            } else if (peek() != '}') {
                throw wrong();
            }
        }
        at++;
        return found;
    }

    private List<Object> list() {
        List<Object> found = new ArrayList<>();
        at++;
        blanks();
        while (peek() != ']') {
            found.add(value());
            blanks();
            if (peek() == ',') {
                at++;
            } else if (peek() != ']') {
                throw wrong();
            }
        }
        at++;
        return found;
    }

    private String string() {
        expect('"');
        StringBuilder found = new StringBuilder();
        while (peek() != '"') {
            char c = text.charAt(at++);
            found.append(c == '\\' ? escaped() : c);
        }
        at++;
        return found.toString();
    }

    private char escaped() {
        char c = peek();
        at++;
        switch (c) {
            case 'n':
                return '\n';
            case 't':
                return '\t';
            case 'r':
                return '\r';
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'u':
                at += 4;
                return (char) Integer.parseInt(text.substring(at - 4, at), 16);
            default:
                return c;
        }
    }

    private Object number() {
        int begin = at;
        while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        String found = text.substring(begin, at);
        if (found.isEmpty()) {
            throw wrong();
        }
        return found.matches("-?\\d+") ? (Object) Long.valueOf(found) : Double.valueOf(found);
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw wrong();
        }
        at += word.length();
        return value;
    }

    private void blanks() {
        while (at < text.length() && text.charAt(at) <= ' ') {
            at++;
        }
    }

    private char peek() {
        if (at >= text.length()) {
            throw wrong();
        }
        return text.charAt(at);
    }

    private void expect(char c) {
        if (peek() != c) {
            throw wrong();
        }
        at++;
    }

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("not JSON at character " + at);
    }

    /** A value of an MBean as Jolokia writes it; what has no form of its own in JSON as its text. */
    static void write(StringBuilder out, Object value) {
        if (value == null) {
            out.append("null");
        } else if (value instanceof Boolean || value instanceof Long || value instanceof Integer || value instanceof Short) {
            out.append(value);
        } else if (value instanceof Double || value instanceof Float) {
            double number = ((Number) value).doubleValue();
            out.append(Double.isNaN(number) || Double.isInfinite(number) ? "null" : value.toString());
        } else if (value instanceof Number) {
            out.append(value);
        } else if (value instanceof CompositeData) {
            writeComposite(out, (CompositeData) value);
        } else if (value instanceof Map) {
            writeMap(out, (Map<?, ?>) value);
        } else if (value instanceof Collection) {
            writeList(out, ((Collection<?>) value).toArray());
        } else if (value.getClass().isArray()) {
            writeList(out, value);
        } else if (value instanceof ObjectName) {
            out.append("{\"objectName\":");
            writeText(out, value.toString());
            out.append('}');
        } else {
            writeText(out, value.toString());
        }
    }

    private static void writeComposite(StringBuilder out, CompositeData value) {
        char separator = '{';
        for (String key : value.getCompositeType().keySet()) {
            out.append(separator);
            writeText(out, key);
            out.append(':');
            write(out, value.get(key));
            separator = ',';
        }
        out.append(separator == '{' ? "{}" : "}");
    }

    static void writeMap(StringBuilder out, Map<?, ?> value) {
        char separator = '{';
        for (Map.Entry<?, ?> entry : value.entrySet()) {
            out.append(separator);
            writeText(out, String.valueOf(entry.getKey()));
            out.append(':');
            write(out, entry.getValue());
            separator = ',';
        }
        out.append(separator == '{' ? "{}" : "}");
    }

    private static void writeList(StringBuilder out, Object array) {
        out.append('[');
        for (int i = 0; i < Array.getLength(array); i++) {
            if (i > 0) {
                out.append(',');
            }
            write(out, Array.get(array, i));
        }
        out.append(']');
    }

    static void writeText(StringBuilder out, String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || Character.isSurrogate(c)) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }

    static byte[] bytes(StringBuilder text) {
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }
}

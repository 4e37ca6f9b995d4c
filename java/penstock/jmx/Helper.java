package penstock.jmx;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

/**
 * Asks one broker over JMX for a parent process, until its standard input ends.
 *
 * <p>In: a JSON object a line, either {"connect": {"url", "user", "password"}} or {"requests": [Jolokia requests]}.
 * Out: a line {"kind": KIND, "length": N}, then a line of N bytes: the Jolokia responses (KIND "answer"), or a JSON text
 * that says what is wrong ("refused", "unreachable", "bad"). After "unreachable" it must be told to connect anew.
 */
public final class Helper {
    private static Broker broker;

    public static void main(String[] arguments) throws IOException {
        PrintStream out = System.out;
        System.setOut(System.err); // whatever a library prints stays out of the answers
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            StringBuilder said = new StringBuilder();
            String kind = handle(line, said);
            byte[] body = Json.bytes(said);
            out.write(("{\"kind\":\"" + kind + "\",\"length\":" + body.length + "}\n").getBytes(StandardCharsets.UTF_8));
            out.write(body);
            out.write('\n');
            out.flush();
        }
        System.exit(0); // not by the end of the threads of RMI
    }

    private static String handle(String line, StringBuilder out) {
        try {
            Map<?, ?> command = (Map<?, ?>) Json.parse(line);
            if (command.containsKey("connect")) {
                connect((Map<?, ?>) command.get("connect"));
                out.append("[]");
            } else {
                ask((List<?>) command.get("requests"), out);
            }
            return "answer";
        } catch (SecurityException error) {
            return wrong("refused", error, out);
        } catch (IOException error) {
            disconnect();
            return wrong("unreachable", error, out);
        } catch (RuntimeException error) {
            return wrong("bad", error, out);
        }
    }

    private static void connect(Map<?, ?> where) throws IOException {
        disconnect();
        broker = Broker.connect((String) where.get("url"), (String) where.get("user"), (String) where.get("password"));
    }

    private static void disconnect() {
        if (broker != null) {
            broker.close();
            broker = null;
        }
    }

    private static void ask(List<?> requests, StringBuilder out) throws IOException {
        if (broker == null) {
            throw new IOException("not connected");
        }
        char separator = '[';
        for (Object request : requests) {
            out.append(separator);
            broker.answer(out, (Map<?, ?>) request);
            separator = ',';
        }
        out.append(separator == '[' ? "[]" : "]");
    }

    /** The message of the innermost cause, which is what the broker or the network said. */
    private static String wrong(String kind, Exception error, StringBuilder out) {
        Throwable cause = error;
        while (cause.getCause() != null && cause.getCause() != cause) {
            cause = cause.getCause();
        }
        out.setLength(0);
        String message = cause.getMessage();
        Json.writeText(out, cause.getClass().getSimpleName() + (message == null ? "" : ": " + message.split("\n")[0].trim()));
        return kind;
    }
}

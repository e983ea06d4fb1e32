// Runs Kafka's tools again and again in one JVM, whose start is most of a tool's time.
//
// In: a line per run, the class and its arguments in Base64 with blanks between. Out: exit code, stdout and stderr, in
// Base64 likewise. What an exit would have ended is not counted: output stops with the first one.

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.utils.Exit;

public class ToolDriver {
    static class Exited extends Error {}

    static Integer code;
    static String said;
    static final ByteArrayOutputStream out = new ByteArrayOutputStream();
    static final ByteArrayOutputStream err = new ByteArrayOutputStream();

    static void exit(int status) {
        if (code == null) {
            System.out.flush();
            System.err.flush();
            code = status;
            said = text(out) + " " + text(err);
        }
    }

    static String text(ByteArrayOutputStream stream) {
        return "=" + Base64.getEncoder().encodeToString(stream.toByteArray());
    }

    public static void main(String[] unused) throws Exception {
        PrintStream answers = System.out;
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((status, message) -> {
            exit(status);
            throw new Exited();
        });
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            for (int i = 0; i < words.length; i++) {
                byte[] word = Base64.getDecoder().decode(words[i].substring(1));
                words[i] = new String(word, StandardCharsets.UTF_8);
            }
            out.reset();
            err.reset();
            code = null;
            try {
                Class.forName(words[0]).getMethod("main", String[].class)
                    .invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
            } catch (InvocationTargetException thrown) {
                // Of one that exited, the output was kept when it happened.
                if (!(thrown.getCause() instanceof Exited)) {
                    System.err.print("Exception in thread \"main\" ");
                    thrown.getCause().printStackTrace();
                    exit(1);
                }
            }
            exit(0);
            answers.println(code + " " + said);
            answers.flush();
        }
    }
}

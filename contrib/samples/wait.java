import java.io.IOException;
import java.net.URI;
import java.net.http.*;
import java.nio.file.*;
import java.time.Duration;
import java.util.regex.Pattern;

class Wait {
    static final HttpClient CLIENT = HttpClient.newHttpClient();
    static final String BASE = System.getenv().getOrDefault("VOTE_STATUS_URL", "http://localhost:8080");
    static final Path PAID = Path.of(System.getenv().getOrDefault("VOTE_STATUS_PAID", "paid.txt"));
    static final int WAIT = Integer.parseInt(System.getenv().getOrDefault("VOTE_STATUS_WAIT", "25"));
    static final Pattern VOTED = Pattern.compile("\\{.*\"can_vote\":false,.*\"next_vote_at\":\"([^\"]+)\".*");

    /** The answer, or null: a fault is never a vote. A plugin reads the fields with its JSON library. */
    static String ask(String url) throws InterruptedException {
        var request = HttpRequest.newBuilder(URI.create(url + "?wait=" + WAIT)).timeout(Duration.ofSeconds(WAIT + 10)).build();
        try {
            var answer = CLIENT.send(request, HttpResponse.BodyHandlers.ofString()).body();
            var isAnswer = VOTED.matcher(answer).matches() || answer.matches("\\{.*\"can_vote\":true,.*");
            return isAnswer && !answer.contains("\"error\":") ? answer : null;
        } catch (IOException fault) {
            return null;
        }
    }

    /** Each vote once, also after a restart. In a plugin: a unique key of its database. */
    static void payOnce(String vote) throws IOException {
        if (Files.exists(PAID) && Files.readAllLines(PAID).contains(vote)) return;
        Files.writeString(PAID, vote + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        System.out.println("pay " + vote);
    }

    public static void main(String[] args) throws Exception {
        var server = args.length > 0 ? args[0] : "28";
        var ip = args.length > 1 ? args[1] : "203.0.113.7";
        var pause = 5;
        for (var left = System.nanoTime() + 600_000_000_000L; System.nanoTime() < left; ) { // the player has ten minutes
            var asked = System.nanoTime();
            var answer = ask(BASE + "/api/vote/" + server + "/status/" + ip);
            if (answer == null) {
                Thread.sleep(1000L * pause);
                pause = Math.min(2 * pause, 60);
                continue;
            }
            var voted = VOTED.matcher(answer);
            if (voted.matches()) {
                payOnce(server + " " + ip + " " + voted.group(1));
                return;
            }
            pause = 5;
            if (System.nanoTime() - asked < 1_000_000_000L * WAIT) Thread.sleep(5000); // told sooner than asked for
        }
        System.exit(1);
    }
}

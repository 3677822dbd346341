import java.io.IOException;
import java.net.*;
import java.net.http.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.time.*;
import java.util.*;
import java.util.regex.Pattern;

class Wait {
    static final HttpClient CLIENT = HttpClient.newHttpClient();
    static final String BASE = System.getenv().getOrDefault("VOTE_STATUS_URL", "http://localhost:8080");
    static final Path PAID = Path.of(System.getenv().getOrDefault("VOTE_STATUS_PAID", "paid.txt"));
    static final int WAIT = Integer.parseInt(System.getenv().getOrDefault("VOTE_STATUS_WAIT", "25"));
    static final int SECONDS = Integer.parseInt(System.getenv().getOrDefault("VOTE_STATUS_SECONDS", "600")); // of play
    static final Pattern VOTED = Pattern.compile("\\{.*\"can_vote\":false,.*\"next_vote_at\":\"([^\"]+)\".*");

    /** The answer, or an exception: a fault is never a vote. A plugin reads the fields with its JSON library. */
    static String ask(String url) throws IOException, InterruptedException {
        var request = HttpRequest.newBuilder(URI.create(url + "?wait=" + WAIT)).timeout(Duration.ofSeconds(WAIT + 10)).build();
        var response = CLIENT.send(request, HttpResponse.BodyHandlers.ofString());
        var answer = response.body();
        var isAnswer = VOTED.matcher(answer).matches() || answer.matches("\\{.*\"can_vote\":true,.*");
        if (isAnswer && !answer.contains("\"error\":")) return answer;
        var status = response.statusCode();
        var found = Pattern.compile("\"message\":\"([^\"]*)\"").matcher(answer);
        var message = found.find() ? found.group(1) : "Réponse invalide (" + status + ")";
        if (status / 100 != 4 || status == 408 || status == 429) throw new IOException(message);
        throw new IllegalArgumentException(message); // asking again does not help
    }

    // The first line with this vote and this player, or this vote and this address, pays.
    // In a plugin: one INSERT into a table with two unique keys.
    static void payOnce(String server, String ip, String player, String nextVoteAt) throws IOException {
        var address = InetAddress.getByName(ip).getAddress();
        var key = Arrays.toString(Arrays.copyOf(address, Math.min(address.length, 8))); // for IPv6, the network
        var vote = server + " " + nextVoteAt + "\t";
        var mine = vote + "\t" + player + "\t" + key + "\t" + UUID.randomUUID();
        Files.writeString(PAID, mine + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        for (var line : Files.readAllLines(PAID)) {
            if (!line.startsWith(vote) || !line.contains("\t" + player + "\t") && !line.contains("\t" + key + "\t")) continue;
            if (line.equals(mine)) System.out.println("pay " + server + " " + player + " " + ip + " " + nextVoteAt);
            return;
        }
    }

    public static void main(String[] args) throws InterruptedException {
        var by = args.length > 0 ? args : new String[] {"28", "203.0.113.7", "Alex"};
        var url = BASE + "/api/vote/" + by[0] + "/status/" + URLEncoder.encode(by[1], StandardCharsets.UTF_8);
        int pause = 5, status = 1;
        String said = "";
        long asked, end = System.currentTimeMillis() + 1000L * SECONDS;
        while ((asked = System.currentTimeMillis()) < end) {
            try {
                var voted = VOTED.matcher(ask(url));
                pause = 5;
                said = "";
                if (voted.matches()) {
                    status = 0;
                    payOnce(by[0], by[1], by[2], voted.group(1));
                    var next = Instant.parse(voted.group(1)).toEpochMilli();
                    Thread.sleep(Math.max(5000, Math.min(next, end) - System.currentTimeMillis()));
                } else if (System.currentTimeMillis() - asked < 1000L * WAIT) Thread.sleep(5000); // sooner than asked for
            } catch (IOException | IllegalArgumentException fault) {
                if (!said.equals(fault.toString())) System.err.println(said = fault.toString());
                if (fault instanceof IllegalArgumentException) System.exit(2);
                Thread.sleep(1000L * pause);
                pause = Math.min(2 * pause, 60);
            }
        }
        System.exit(status);
    }
}

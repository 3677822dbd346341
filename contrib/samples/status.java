import java.io.IOException;
import java.net.URI;
import java.net.http.*;
import java.time.Duration;
import java.util.regex.Pattern;

class Status {
    static final HttpClient CLIENT = HttpClient.newHttpClient();

    /** The answer, or an exception: a fault is never a vote. A plugin reads the fields with its JSON library. */
    static String voteStatus(String url) throws IOException, InterruptedException {
        var request = HttpRequest.newBuilder(URI.create(url)).timeout(Duration.ofSeconds(5)).build();
        var answer = CLIENT.send(request, HttpResponse.BodyHandlers.ofString()).body();
        if (!answer.startsWith("{") || !answer.matches(".*\"can_vote\":(true|false),.*")) throw new IOException("Réponse invalide");
        if (answer.contains("\"error\":")) throw new IOException(message(answer));
        return answer;
    }

    static String message(String answer) {
        var found = Pattern.compile("\"message\":\"([^\"]*)\"").matcher(answer);
        return found.find() ? found.group(1) : "";
    }

    public static void main(String[] args) throws InterruptedException {
        var base = System.getenv().getOrDefault("VOTE_STATUS_URL", "http://localhost:8080");
        var by = args.length > 0 ? args : new String[] {"id", "28", "203.0.113.7"};
        var path = by[0].equals("id") ? "/api/vote/%s/status/%s" : "/api/servers/%s/vote-status/%s";
        try {
            var answer = voteStatus(base + path.formatted(by[1], by[2]));
            System.out.println(message(answer));
            System.exit(answer.contains("\"can_vote\":true") ? 0 : 1); // 1: has voted, the reward is due
        } catch (IOException fault) {
            System.err.println(fault.getMessage() != null ? fault.getMessage() : fault);
            System.exit(2);
        }
    }
}

using System;
using System.IO;
using System.Net;
using System.Text;
using System.Text.RegularExpressions;
using System.Threading;

// For .NET and Mono, C# 6 or later.
static class Wait
{
    static readonly string Base = Setting("VOTE_STATUS_URL", "http://localhost:8080");
    static readonly string Paid = Setting("VOTE_STATUS_PAID", "paid.txt");
    static readonly int Seconds = int.Parse(Setting("VOTE_STATUS_WAIT", "25"));
    static readonly int PlaySeconds = int.Parse(Setting("VOTE_STATUS_SECONDS", "600")); // of play
    static readonly Regex Voted = new Regex("^{.*\"can_vote\":false,.*\"next_vote_at\":\"([^\"]+)\"");
    static readonly Regex CanVote = new Regex("^{.*\"can_vote\":true,");
    static readonly Regex Message = new Regex("^{.*\"message\":\"([^\"]*)\"");

    // Asking again does not help: the server, the token or the address is wrong.
    class Refused : Exception
    {
        public Refused(string message) : base(message) { }
    }

    static string Setting(string name, string otherwise) => Environment.GetEnvironmentVariable(name) ?? otherwise;

    // The answer, or an exception: a fault is never a vote. A plugin reads the fields with its JSON library.
    static string Ask(string url)
    {
        var request = (HttpWebRequest)WebRequest.Create(url + "?wait=" + Seconds);
        request.Timeout = 1000 * (Seconds + 10);
        request.AllowAutoRedirect = false;
        HttpWebResponse response;
        try { response = (HttpWebResponse)request.GetResponse(); }
        catch (WebException fault) when (fault.Response is HttpWebResponse) { response = (HttpWebResponse)fault.Response; }
        string answer;
        using (var reader = new StreamReader(response.GetResponseStream(), Encoding.UTF8)) answer = reader.ReadToEnd();
        if ((Voted.IsMatch(answer) || CanVote.IsMatch(answer)) && !answer.Contains("\"error\":")) return answer;
        var status = (int)response.StatusCode;
        var found = Message.Match(answer);
        var message = found.Success ? found.Groups[1].Value : "Réponse invalide (" + status + ")";
        if (status / 100 == 4 && status != 408 && status != 429) throw new Refused(message);
        throw new WebException(message);
    }

    // Under a lock, because .NET does not append in one step. In a plugin: one INSERT into a table with two unique keys.
    static void PayOnce(string server, string ip, string player, string nextVoteAt)
    {
        var address = IPAddress.Parse(ip);
        if (address.IsIPv4MappedToIPv6) address = address.MapToIPv4();
        var bytes = address.GetAddressBytes();
        var key = BitConverter.ToString(bytes, 0, Math.Min(bytes.Length, 8)); // for IPv6, the network
        var vote = server + " " + nextVoteAt;
        using (var ledger = new FileStream(Paid, FileMode.OpenOrCreate, FileAccess.ReadWrite, FileShare.ReadWrite))
        {
            for (var isLocked = false; !isLocked;)
            {
                try { ledger.Lock(0, 1); isLocked = true; }
                catch (IOException) { Thread.Sleep(50); }
            }
            foreach (var line in new StreamReader(ledger).ReadToEnd().Split('\n'))
            {
                var part = line.Split('\t');
                if (part[0] == vote && (part[1] == player || part[2] == key)) return;
            }
            var mine = Encoding.UTF8.GetBytes(vote + "\t" + player + "\t" + key + "\n");
            ledger.Write(mine, 0, mine.Length);
        }
        Console.WriteLine(string.Join(" ", "pay", server, player, ip, nextVoteAt));
    }

    static int Main(string[] args)
    {
        var server = args.Length > 0 ? args[0] : "28";
        var ip = args.Length > 1 ? args[1] : "203.0.113.7";
        var player = args.Length > 2 ? args[2] : "Alex";
        var url = Base + "/api/vote/" + server + "/status/" + Uri.EscapeDataString(ip);
        var pause = 5;
        var said = "";
        var hasVoted = false;
        for (var end = DateTime.UtcNow.AddSeconds(PlaySeconds); DateTime.UtcNow < end;)
        {
            var asked = DateTime.UtcNow;
            try
            {
                var voted = Voted.Match(Ask(url));
                pause = 5;
                said = "";
                if (voted.Success)
                {
                    hasVoted = true;
                    PayOnce(server, ip, player, voted.Groups[1].Value);
                    var next = DateTimeOffset.Parse(voted.Groups[1].Value).UtcDateTime;
                    var seconds = ((next < end ? next : end) - DateTime.UtcNow).TotalSeconds;
                    Thread.Sleep(TimeSpan.FromSeconds(Math.Max(5, seconds + 0.01)));
                }
                else if ((DateTime.UtcNow - asked).TotalSeconds < Seconds) Thread.Sleep(5000); // sooner than asked for
            }
            catch (Refused fault)
            {
                Console.Error.WriteLine(fault.Message);
                return 2;
            }
            catch (Exception fault) when (fault is WebException || fault is IOException)
            {
                if (fault.Message != said) Console.Error.WriteLine(said = fault.Message);
                Thread.Sleep(1000 * pause);
                pause = Math.Min(2 * pause, 60);
            }
        }
        return hasVoted ? 0 : 1;
    }
}

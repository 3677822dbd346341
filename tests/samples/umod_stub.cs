// A stub: the calls of uMod that contrib/samples/umod.cs makes. Players are there for VOTE_STATUS_SECONDS.   {IP ID}…
using System; using System.Collections.Generic; using System.IO; using System.Net; using System.Reflection; using System.Threading;
namespace Oxide.Core {
    public static class Interface { public static Files Oxide = new Files(); }
    public class Files {
        public Files DataFileSystem => this; readonly string path = Environment.GetEnvironmentVariable("VOTE_STATUS_PAID");
        public T ReadObject<T>(string name) => Newtonsoft.Json.JsonConvert.DeserializeObject<T>(File.Exists(path) ? File.ReadAllText(path) : "");
        public void WriteObject<T>(string name, T value) => File.WriteAllText(path, Newtonsoft.Json.JsonConvert.SerializeObject(value));
    }
}
namespace Oxide.Core.Libraries { public enum RequestMethod { GET } }
namespace Oxide.Core.Libraries.Covalence {
    public class IPlayer { public string Id, Address; public bool IsConnected => DateTime.UtcNow < Plugins.CovalencePlugin.Leaves; public string Name => Id; }
}
namespace Oxide.Plugins {
    public class InfoAttribute : Attribute { public InfoAttribute(string title, string author, string version) { } }
    public class CovalencePlugin {
        public static DateTime Leaves = DateTime.MaxValue;
        static readonly Queue<KeyValuePair<DateTime, Action>> Timers = new Queue<KeyValuePair<DateTime, Action>>();
        public CovalencePlugin webrequest => this; public CovalencePlugin timer => this;
        public void Puts(string line) => Console.WriteLine(line);
        public void Once(float seconds, Action call) => Timers.Enqueue(new KeyValuePair<DateTime, Action>(DateTime.UtcNow.AddSeconds(seconds), call));
        public void Enqueue(string url, string body, Action<int, string> call, object owner, Core.Libraries.RequestMethod method, object headers, float timeout) {
            var request = (HttpWebRequest)WebRequest.Create(url); request.Timeout = (int)(1000 * timeout); HttpWebResponse response;
            try { response = (HttpWebResponse)request.GetResponse(); } catch (WebException fault) { response = (HttpWebResponse)fault.Response; }
            if (response == null) call(0, null);
            else using (var reader = new StreamReader(response.GetResponseStream())) call((int)response.StatusCode, reader.ReadToEnd());
        }
        static void Main(string[] args) { var plugin = new VoteStatus();
            Action<string, object[]> hook = (name, with) => typeof(VoteStatus).GetMethod(name, BindingFlags.NonPublic | BindingFlags.Instance).Invoke(plugin, with);
            hook("Init", null);
            for (var at = 0; at < args.Length; at += 2) hook("OnUserConnected", new[] { new Core.Libraries.Covalence.IPlayer { Address = args[at], Id = args[at + 1] } });
            Leaves = DateTime.UtcNow.AddSeconds(int.Parse(Environment.GetEnvironmentVariable("VOTE_STATUS_SECONDS") ?? "600"));
            for (; Timers.Count > 0; Timers.Dequeue().Value()) {
                var due = Timers.Peek().Key < Leaves ? Timers.Peek().Key : Leaves;
                if (due > DateTime.UtcNow) Thread.Sleep(due - DateTime.UtcNow + TimeSpan.FromMilliseconds(1));
            }
        }
    }
}

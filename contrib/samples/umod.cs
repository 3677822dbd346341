// A plugin for uMod (Oxide): save it as oxide/plugins/VoteStatus.cs.
using System;
using System.Collections.Generic;
using System.Linq;
using System.Net;
using Newtonsoft.Json.Linq;
using Oxide.Core;
using Oxide.Core.Libraries;
using Oxide.Core.Libraries.Covalence;

namespace Oxide.Plugins
{
    [Info("VoteStatus", "vote-status", "1.1.0")]
    class VoteStatus : CovalencePlugin
    {
        const string Url = "http://localhost:8080/api/vote/28";
        const int Wait = 25;
        HashSet<string> paid = new HashSet<string>();

        void Init() => paid = Interface.Oxide.DataFileSystem.ReadObject<HashSet<string>>("VoteStatus") ?? paid;

        void OnUserConnected(IPlayer player) => Follow(player, 5, null);

        void Reward(IPlayer player) => Puts("pay " + player.Name); // the server's own reward

        void Follow(IPlayer player, int pause, string said)
        {
            if (!player.IsConnected) return;
            var asked = DateTime.UtcNow;
            var url = Url + "/status/" + Uri.EscapeDataString(player.Address) + "?wait=" + Wait;
            webrequest.Enqueue(url, null, (status, body) =>
            {
                var answer = Parse(body);
                var message = (string)answer["message"] ?? "Réponse invalide (" + status + ")";
                var canVote = answer["can_vote"]?.Type == JTokenType.Boolean ? (bool?)answer["can_vote"] : null;
                var next = (string)answer["next_vote_at"];
                if (answer["error"] != null || canVote == null || (canVote == false && next == null))
                {
                    // A fault is never a vote.
                    if (message != said) Puts(message);
                    if (status / 100 == 4 && status != 408 && status != 429) return;
                    timer.Once(pause, () => Follow(player, Math.Min(2 * pause, 60), message));
                    return;
                }
                var seconds = (DateTime.UtcNow - asked).TotalSeconds < Wait ? 5 : 0; // answered sooner than asked for
                if (canVote == false)
                {
                    PayOnce(player, next);
                    seconds = (int)Math.Max(5, Math.Ceiling((DateTimeOffset.Parse(next) - DateTimeOffset.UtcNow).TotalSeconds));
                }
                timer.Once(seconds, () => Follow(player, 5, null));
            }, this, RequestMethod.GET, null, Wait + 10f);
        }

        // Instants stay text.
        static JObject Parse(string body)
        {
            var reader = new Newtonsoft.Json.JsonTextReader(new System.IO.StringReader(body ?? ""));
            reader.DateParseHandling = Newtonsoft.Json.DateParseHandling.None;
            try { return JObject.Load(reader); }
            catch (Newtonsoft.Json.JsonException) { return new JObject(); }
        }

        // For IPv6, the network.
        static string Key(string ip)
        {
            var bytes = IPAddress.Parse(ip).GetAddressBytes();
            return BitConverter.ToString(bytes, 0, Math.Min(bytes.Length, 8));
        }

        // One file, written at once, has both keys: a vote pays one player, and a player once.
        void PayOnce(IPlayer player, string nextVoteAt)
        {
            var vote = Url + " " + nextVoteAt;
            var keys = new[] { vote + " player " + player.Id, vote + " address " + Key(player.Address) };
            if (keys.Any(paid.Contains)) return;
            paid.UnionWith(keys);
            Interface.Oxide.DataFileSystem.WriteObject("VoteStatus", paid);
            Reward(player);
        }
    }
}

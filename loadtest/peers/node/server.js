// The status resource on Node's own http module, one MGET per request through ioredis, which joins the
// commands of one turn of the event loop into one write.
//
// Usage: node server.js PORT REDIS_PORT
"use strict";
const http = require("node:http");
const net = require("node:net");
const Redis = require("ioredis");

const COOLDOWN_MINUTES = 90;
const SHAPE = /^\/api\/vote\/([0-9]+)\/status\/([^/?]+)/;
const [port, redisPort] = process.argv.slice(2).map(Number);
const redis = new Redis({ host: "127.0.0.1", port: redisPort, enableAutoPipelining: true });

function answer(response, status, fields) {
  const body = JSON.stringify(fields);
  response.writeHead(status, {
    "Content-Type": "application/json; charset=utf-8",
    "Cache-Control": "no-store",
    "Access-Control-Allow-Origin": "*",
    "X-Content-Type-Options": "nosniff",
    "Content-Length": Buffer.byteLength(body),
  });
  response.end(body);
}

function canVote(message, more) {
  return {
    success: true,
    can_vote: true,
    message,
    next_vote_at: null,
    cooldown_minutes: COOLDOWN_MINUTES,
    ...more,
  };
}

function inCooldown(left, expiry) {
  return {
    success: false,
    can_vote: false,
    message: `Vous pourrez voter à nouveau dans ${Math.ceil(left / 60)} minutes`,
    next_vote_at: new Date(expiry * 1000).toISOString().replace(".000Z", "Z"),
    cooldown_minutes: COOLDOWN_MINUTES,
  };
}

async function serve(request, response) {
  const part = SHAPE.exec(request.url);
  if (!part) return answer(response, 404, canVote("Ressource introuvable", { error: "not_found" }));
  const [, id, ip] = part;
  if (!net.isIPv4(ip)) return answer(response, 400, canVote("Adresse IP invalide", { error: "invalid_ip" }));
  const [server, expiry] = await redis.mget(`server:${id}`, `cooldown:${id}:${ip}`);
  if (server === null) return answer(response, 404, canVote("Serveur inconnu", { error: "unknown_server" }));
  const left = Number(expiry) - Math.floor(Date.now() / 1000);
  if (left <= 0) return answer(response, 200, canVote("Vous pouvez voter maintenant"));
  return answer(response, 200, inCooldown(left, Number(expiry)));
}

const server = http.createServer((request, response) => {
  serve(request, response).catch(() => {
    answer(response, 503, canVote("Service momentanément indisponible", { error: "not_ready" }));
  });
});
server.keepAliveTimeout = 75_000;
server.maxRequestsPerSocket = 0;
server.listen({ port, host: "127.0.0.1", backlog: 4096 });

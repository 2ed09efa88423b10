// The picture: ZooKeeper, brokers with their controllers, requests without an answer.

import { svg } from "./dom.js";
import { byNumbers } from "./frames.js";

const WIDTH = 920;
const CARD = { width: 204, height: 128 };
const BELOW = 76;
const IN_A_ROW = 4;
const TOP = { width: 330, height: 84, y: 14 };
const SHORT = 22;

export function drawStage(state, step, before) {
  const isQuorum = keys(state, "node/").length > 0;
  const brokers = keys(state, isQuorum ? "node/" : "broker/");
  const hasZookeeper = [...state.keys()].some((key) => key.startsWith("znode"));
  const rows = Math.max(1, Math.ceil(brokers.length / IN_A_ROW));
  const first = hasZookeeper ? 206 : 70;
  const height = first + rows * (CARD.height + BELOW);
  const places = new Map(brokers.map((id, index) => [id, placeOf(index, brokers.length, first)]));
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": "The cluster at this step" },
    svg("defs", {}, head("head"), head("head-request")));
  if (hasZookeeper) for (const id of brokers) picture.append(...wire(state.get(`broker/${id}`), places.get(id), talk(step, id)));
  for (const [key, request] of state) {
    if (key.startsWith("request/") || key.startsWith("answer/")) picture.append(...arrow(key, request, places));
  }
  if (hasZookeeper) picture.append(zookeeper(state, before));
  for (const id of brokers) picture.append(isQuorum ? nodeCard(id, state, step, places.get(id)) : card(id, state, step, places.get(id)));
  return picture;
}

function keys(state, prefix) {
  return [...state.keys()].filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length)).sort(byNumbers);
}

function placeOf(index, count, first) {
  const row = Math.floor(index / IN_A_ROW);
  const inRow = Math.min(IN_A_ROW, count - row * IN_A_ROW);
  const gap = (WIDTH - inRow * CARD.width) / (inRow + 1);
  return { x: gap + (index % IN_A_ROW) * (CARD.width + gap), y: first + row * (CARD.height + BELOW) };
}

function head(id) {
  return svg("marker", { id, viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
    svg("path", { d: "M0 0 L10 5 L0 10 z" }));
}

function text(x, y, content, type = "", anchor = "start") {
  return svg("text", { x, y, class: type, "text-anchor": anchor }, content);
}

function zookeeper(state, before) {
  const x = (WIDTH - TOP.width) / 2;
  const group = svg("g", {}, svg("rect", { class: "box zookeeper", x, y: TOP.y, width: TOP.width, height: TOP.height, rx: 10 }));
  const epoch = state.get("znode/controller_epoch");
  const office = state.get("znode/controller");
  const lines = [
    ["znode/controller", office ? `/controller = broker ${office.owner}` : "/controller is not there"],
    ["znode/controller_epoch", epoch ? `/controller_epoch = ${epoch.data} (version ${epoch.version})` : "/controller_epoch is not there"],
  ];
  group.append(text(x + 14, TOP.y + 24, "ZooKeeper", "name"));
  lines.forEach(([key, words], index) => {
    const y = TOP.y + 46 + index * 22;
    if (JSON.stringify(state.get(key)) !== JSON.stringify(before.get(key))) {
      group.append(svg("rect", { class: "value", x: x + 8, y: y - 14, width: TOP.width - 16, height: 20, rx: 4 }));
    }
    group.append(text(x + 14, y, words, "mono"));
  });
  return group;
}

function isDeposed(broker, state) {
  const epoch = state.get("znode/controller_epoch");
  if (broker.is_deposed) return true;
  return broker.is_controller && epoch !== undefined && String(broker.controller_epoch) !== epoch.data;
}

function card(id, state, step, { x, y }) {
  const broker = state.get(`broker/${id}`);
  const deposed = isDeposed(broker, state);
  const acts = step.lines.some((line) => String(line.broker) === id);
  const classes = [broker.process, deposed ? "deposed" : broker.is_controller ? "controller" : "", acts ? "acting" : ""];
  const group = svg("g", { class: classes.join(" ") },
    svg("rect", { class: "box", x, y, width: CARD.width, height: CARD.height, rx: 10 }),
    text(x + 12, y + 24, `broker ${id}`, "name"));
  const state_words = broker.process === "running" ? "" : broker.process === "unknown" ? "" : broker.process;
  if (state_words) group.append(text(x + CARD.width - 12, y + 24, state_words, broker.process === "paused" ? "badge warn" : "badge bad", "end"));
  if (broker.is_controller) {
    const words = broker.is_deposed ? `♛ of epoch ${broker.controller_epoch}, not resigned` : deposed ? `♛ still acts in epoch ${broker.controller_epoch}` : `♛ controller, epoch ${broker.controller_epoch}`;
    group.append(text(x + 12, y + 45, words, deposed ? "badge bad" : "badge"));
  } else if (broker.highest_controller_epoch_seen > 0) {
    group.append(text(x + 12, y + 45, `obeys epoch ${broker.highest_controller_epoch_seen}`, "small"));
  }
  if (broker.broker_epoch !== undefined && broker.broker_epoch >= 0) group.append(text(x + 12, y + 64, `broker epoch ${broker.broker_epoch}`, "small"));
  const roles = rolesOf(id, state);
  if (roles && broker.process !== "dead") group.append(text(x + 12, y + 82, roles, "small"));
  const queued = broker.queued_events > 0 ? ` +${broker.queued_events}` : "";
  if (broker.task) group.append(text(x + 12, y + 110, `▸ ${short(broker.task)}${queued}`, "mono"));
  else if (queued) group.append(text(x + 12, y + 110, `${broker.queued_events} events queued`, "small"));
  else if (broker.last) group.append(text(x + 12, y + 110, short(broker.last), "small"));
  return group;
}

// How many partitions the broker leads and follows, as it takes itself.
function rolesOf(id, state) {
  let [leads, follows] = [0, 0];
  for (const [key, partition] of state) {
    const belief = key.startsWith("partition/") ? (partition.brokers ?? {})[id] : undefined;
    if (belief === undefined) continue;
    if (String(belief.leader) === id) leads++;
    else follows++;
  }
  return leads + follows ? `leads ${leads}, follows ${follows}` : "";
}

function nodeCard(id, state, step, { x, y }) {
  const node = state.get(`node/${id}`);
  const acts = step.lines.some((line) => String(line.broker) === id);
  const classes = [node.process, node.state === "leader" ? "controller" : "", acts ? "acting" : ""];
  const vote = node.stored_vote === null ? "" : `, vote for ${node.stored_vote === Number(id) ? "itself" : node.stored_vote}`;
  const disk = node.stored_epoch === null ? "on disk: nothing" : `on disk: epoch ${node.stored_epoch}${vote}`;
  return svg("g", { class: classes.join(" ") },
    svg("rect", { class: "box", x, y, width: CARD.width, height: CARD.height, rx: 10 }),
    text(x + 12, y + 24, `node ${id}`, "name"),
    text(x + 12, y + 45, `${node.state || "not started"}, epoch ${node.epoch}`, node.state === "leader" ? "badge" : node.state === "candidate" ? "badge warn" : "small"),
    text(x + 12, y + 66, node.leader === null || node.leader < 0 ? "knows no leader" : `follows the leader ${node.leader}`.replace(`follows the leader ${id}`, "leads"), "small"),
    text(x + 12, y + 86, disk, "small"),
    text(x + 12, y + 108, `log end ${node.log_end_offset}`, "small"));
}

function short(words) {
  const name = words.replace(/\(.*$/, "");
  return name.length > SHORT ? `${name.slice(0, SHORT - 1)}…` : name;
}

// Whether the step has the broker ask ZooKeeper, or get something from it.
function talk(step, id) {
  const kinds = step.lines.filter((line) => String(line.broker) === id).map((line) => line.kind);
  if (kinds.includes("question")) return "up";
  return kinds.includes("answer") || kinds.includes("notification") || kinds.includes("error") ? "down" : "";
}

function wire(broker, { x, y }, direction) {
  if (broker.process === "dead" && broker.session !== "alive") return [];
  const [fromX, toX] = [x + CARD.width / 2, WIDTH / 2 + (x + CARD.width / 2 - WIDTH / 2) * 0.34];
  const [fromY, toY] = [y, TOP.y + TOP.height];
  const isWhole = broker.is_connected && broker.session === "alive" && broker.process !== "dead";
  const found = [];
  if (direction && isWhole) {
    const d = direction === "up" ? `M${fromX} ${fromY} L${toX} ${toY + 3}` : `M${toX} ${toY} L${fromX} ${fromY - 3}`;
    found.push(svg("path", { class: "talk", d }));
  } else {
    found.push(svg("path", { class: isWhole ? "wire" : "wire broken", d: `M${fromX} ${fromY} L${toX} ${toY}` }));
  }
  const words = broker.is_cut_off ? "cut off" : broker.session !== "alive" ? "no session" : broker.process === "dead" ? "session not over yet" : isWhole ? "" : "not connected";
  if (words) found.push(text((fromX + toX) / 2, (fromY + toY) / 2 + 4, words, "badge bad", "middle"));
  return found;
}

function arrow(key, request, places) {
  const [from, to] = key.slice(key.indexOf("/") + 1).split(">").map((id) => places.get(id));
  if (!from || !to) return [];
  const epoch = request.controller_epoch === undefined ? "" : `, epoch ${request.controller_epoch}`;
  const label = `${request.request}${epoch}` + (request.queued_behind ? ` (+${request.queued_behind})` : "");
  const bottom = CARD.height;
  const isAnswer = key.startsWith("answer/");
  if (from === to) {
    const x = from.x + CARD.width / 2;
    const d = `M${x - 34} ${from.y + bottom} C${x - 34} ${from.y + bottom + 26} ${x + 14} ${from.y + bottom + 26} ${x + 14} ${from.y + bottom + 4}`;
    return [svg("path", { class: "request", d }), text(x - 10, from.y + bottom + 38, label, "label", "middle")];
  }
  const isRight = to.x > from.x;
  const isFar = Math.abs(to.x - from.x) > 1.8 * CARD.width || to.y !== from.y;
  const inset = isFar ? 76 : 40;
  const start = from.x + (isRight ? CARD.width - 30 : 30);
  const end = to.x + (isRight ? inset : CARD.width - inset);
  const depth = Math.min(64, 34 + Math.abs(end - start) / 12);
  const base = Math.max(from.y, to.y) + bottom;
  const d = `M${start} ${from.y + bottom} C${start} ${base + depth} ${end} ${base + depth} ${end} ${to.y + bottom + 4}`;
  return [svg("path", { class: isAnswer ? "request answer" : "request", d }), text(end + (isRight ? 10 : -10), to.y + bottom + (isFar ? 60 : isRight ? 22 : 40), label, "label", isRight ? "start" : "end")];
}

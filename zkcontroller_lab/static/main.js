// Puts the page together: one index into the steps, and everything that moves it.

import { drawActs, query } from "./acts.js";
import { byId, el } from "./dom.js";
import { Player, seconds } from "./frames.js";
import { drawStage } from "./stage.js";
import { drawPartitions, drawZnodes } from "./tables.js";
import { drawComparison, drawSteps, drawWhy } from "./why.js";

const FOLLOW_MS = 2000;
const FAR = 10;
const KEYS = [
  ["Space", "play or pause"], ["← →", "one step"], ["Shift ← →", `${FAR} steps`], ["Home End", "first and last step"],
  ["[ ]", "the caption before, the caption after"], ["m", "mark this moment; other steps are compared with it"],
  ["x", "forget the marked moment"], ["f", "choose a partition"], ["?", "this list"],
];
const view = { player: null, index: 0, filter: "", marked: null, timer: null, broker: "", server: null };

function shows(index) {
  return view.player.concerns(index, view.filter);
}

function neighbour(direction) {
  let at = view.index + direction;
  while (at >= 0 && at < view.player.steps.length && !shows(at)) at += direction;
  return at >= 0 && at < view.player.steps.length ? at : view.index;
}

function jump(index) {
  view.index = Math.max(0, Math.min(index, view.player.steps.length - 1));
  draw();
}

function move(direction, times = 1) {
  for (let each = 0; each < times; each++) view.index = neighbour(direction);
  draw();
}

function caption(direction) {
  let at = view.index + direction;
  while (at >= 0 && at < view.player.steps.length && !view.player.steps[at].caption) at += direction;
  if (at >= 0 && at < view.player.steps.length) jump(at);
}

function draw() {
  const { player, index, filter } = view;
  const step = player.steps[index];
  const state = player.frame(index);
  const before = index > 0 ? player.frame(index - 1) : new Map();
  byId("stage").replaceChildren(drawStage(state, step, before));
  byId("partitions").replaceChildren(...present(drawPartitions(state, before, filter, choosePartition)));
  byId("partitions").hidden = [...state.keys()].some((key) => key.startsWith("node/"));
  byId("znodes").hidden = ![...state.keys()].some((key) => key.startsWith("znode"));
  byId("znodes").lastElementChild.replaceChildren(drawZnodes(state, before, filter));
  byId("why").replaceChildren(...present(drawWhy(player, index, before, state, jump)));
  byId("steps").replaceChildren(...drawSteps(player, index, shows, jump));
  byId("compare").hidden = view.marked === null;
  if (view.marked !== null) {
    byId("compare").replaceChildren(...drawComparison(view.marked, index, player.frame(view.marked), state, () => mark(null)));
  }
  byId("scrubber").value = String(index);
  byId("scrubber").setAttribute("aria-valuetext", `step ${index}, ${seconds(step)}`);
  byId("position").textContent = `step ${index} of ${player.steps.length - 1} · ${seconds(step)}` +
    (index === player.steps.length - 1 ? ` · ${player.recording.ended}` : "");
  drawInterventions(state, step);
  document.documentElement.dataset.step = String(index);
}

function present(children) {
  return children.filter((child) => child !== null && child !== undefined);
}

function drawInterventions(state, step) {
  const source = view.player.recording.source;
  const hasActs = view.server !== null && source.kind !== "state-changes" && source.takes_interventions !== false;
  byId("acts").hidden = !hasActs;
  if (!hasActs) return;
  if (!state.has(`broker/${view.broker}`)) view.broker = [...state.keys()].find((key) => key.startsWith("broker/"))?.slice(7) ?? "";
  byId("acts").replaceChildren(...drawActs(source, view.server.acts, state, step, view.broker,
    (id) => { view.broker = id; draw(); }, intervene, remove, saveTest));
}

function drawMarks() {
  const { steps } = view.player;
  const last = Math.max(1, steps.length - 1);
  const found = steps.flatMap((step, at) => {
    const isTrouble = step.lines.some((line) => ["error", "broken", "intervention"].includes(line.kind));
    const isElection = "znode/controller_epoch" in step.changes;
    const type = at === view.marked ? "marked" : step.caption ? "captioned" : isTrouble ? "trouble" : isElection ? "election" : null;
    if (type === null || !shows(at)) return [];
    const tick = el("i", { class: type });
    tick.style.left = `${(100 * at) / last}%`;
    return [tick];
  });
  byId("marks").replaceChildren(...found);
}

function mark(index) {
  view.marked = index;
  drawMarks();
  draw();
}

function choosePartition(name) {
  view.filter = view.filter === name ? "" : name;
  byId("filter").value = view.filter;
  drawMarks();
  draw();
}

function play(isPlaying) {
  if (view.timer !== null) window.clearInterval(view.timer);
  view.timer = null;
  if (isPlaying) {
    view.timer = window.setInterval(() => {
      const next = neighbour(1);
      if (next === view.index) play(false);
      else jump(next);
    }, 1000 / Number(byId("speed").value));
  }
  byId("play").textContent = view.timer === null ? "▶ Play" : "❚❚ Pause";
  byId("play").setAttribute("aria-label", view.timer === null ? "Play" : "Pause");
}

// Shows a recording; stays at the turn where the reader is, if one is given.
function show(recording, turn = null) {
  play(false);
  view.player = new Player(recording);
  view.marked = null;
  byId("title").textContent = recording.title;
  byId("summary").textContent = recording.source.summary ?? "";
  document.title = `${recording.title} – zkctl lab`;
  const names = view.player.partitions();
  if (!names.includes(view.filter)) view.filter = "";
  byId("filter").replaceChildren(el("option", { value: "" }, "all"), ...names.map((name) => el("option", { value: name, selected: name === view.filter }, name)));
  byId("scrubber").max = String(recording.steps.length - 1);
  if (recording.steps.length === 0) return problem(`There is no step in it. ${recording.ended}`);
  const first = recording.steps.findIndex((step) => step.caption);
  const linked = turn === null ? stepOfAddress() : -1;
  const there = linked >= 0 ? linked : turn === null ? -1 : recording.steps.findLastIndex((step) => step.turn <= turn);
  view.index = Math.min(there >= 0 ? there : Math.max(0, first), recording.steps.length - 1);
  problem("");
  drawMarks();
  draw();
}

// The address may name a step: #step-120. A link to a moment is made by hand.
function stepOfAddress() {
  const found = /^#step-(\d{1,6})$/.exec(window.location.hash);
  return found ? Number(found[1]) : -1;
}

function problem(words) {
  byId("problem").textContent = words;
  byId("problem").hidden = words === "";
}

async function load(source, turn = null) {
  play(false);
  try {
    const response = await fetch(`recording.json?${query(source)}`);
    if (!response.ok) return problem(await response.text());
    show(await response.json(), turn);
  } catch (error) {
    problem(`The server does not answer: ${error.message}`);
  }
}

function intervene(act) {
  const { source, steps } = view.player.recording;
  const turn = steps[view.index].turn;
  const kept = source.interventions.filter((each) => each.turn <= turn);
  const added = act === "delete-controller" ? { turn, act } : { turn, act, broker: Number(view.broker) };
  load({ ...source, interventions: [...kept, added] }, turn);
}

function remove(at) {
  const { source } = view.player.recording;
  load({ ...source, interventions: source.interventions.slice(0, at) }, view.player.steps[view.index].turn);
}

async function saveTest() {
  const response = await fetch(`saved-test?${query(view.player.recording.source)}`);
  if (!response.ok) return problem(await response.text());
  const name = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "")?.[1] ?? "test_run.py";
  const link = el("a", { href: URL.createObjectURL(await response.blob()), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

function showHelp() {
  byId("help").replaceChildren(el("h2", {}, "Keys"),
    el("table", {}, el("tbody", {}, ...KEYS.map(([key, meaning]) => el("tr", {}, el("td", {}, el("kbd", {}, key)), el("td", {}, meaning))))),
    el("form", { method: "dialog" }, el("button", { autofocus: true }, "Close")));
  byId("help").showModal();
}

function onKey(event) {
  const isField = event.target instanceof HTMLSelectElement || (event.target instanceof HTMLInputElement && event.target.type !== "range");
  if (isField || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key === " " && event.target instanceof HTMLButtonElement) return;
  const actions = {
    " ": () => play(view.timer === null), ArrowRight: () => move(1, event.shiftKey ? FAR : 1), ArrowLeft: () => move(-1, event.shiftKey ? FAR : 1),
    Home: () => jump(0), End: () => jump(view.player.steps.length - 1), "[": () => caption(-1), "]": () => caption(1),
    m: () => mark(view.index), x: () => mark(null), f: () => byId("filter").focus(), "?": showHelp,
  };
  const action = actions[event.key];
  if (!action || !view.player || view.player.steps.length === 0) return;
  event.preventDefault();
  action();
}

function sources() {
  const choices = view.server.lessons.map(([name, title]) => [`lesson:${name}`, title]);
  if (view.server.files.length) choices.unshift(["files:", view.server.files.length === 1 ? view.server.files[0] : `${view.server.files.length} files`]);
  choices.push(["seed:", "another seed…"]);
  const { source } = view.player.recording;
  if (source.kind === "seed") choices.unshift([`seed:${source.seed}`, `seed ${source.seed}`]);
  const current = source.kind === "seed" ? `seed:${source.seed}` : source.kind === "lesson" ? `lesson:${source.lesson}` : "files:";
  byId("source").replaceChildren(...choices.map(([value, name]) => el("option", { value, selected: value === current }, name)));
}

async function chooseSource(value) {
  const [kind, name] = value.split(/:(.*)/);
  if (kind === "files") await load({ kind: "state-changes" });
  else if (kind === "lesson") await load({ kind, lesson: name, interventions: [] });
  else {
    const seed = name || window.prompt("Seed (a number)", "1");
    if (seed !== null && /^\d{1,18}$/.test(seed)) await load({ kind, seed, interventions: [] });
  }
  sources();
}

async function follow() {
  if (!byId("follow").checked || view.player.recording.source.kind !== "state-changes") return;
  const wasLast = view.index === view.player.steps.length - 1;
  const at = view.index;
  const response = await fetch("recording.json?files=1");
  if (!response.ok) return problem(await response.text());
  const recording = await response.json();
  if (recording.steps.length === view.player.steps.length) return;
  show(recording);
  if (view.player.steps.length > 0) jump(wasLast ? view.player.steps.length - 1 : at);
}

function listen() {
  byId("first").addEventListener("click", () => jump(0));
  byId("last").addEventListener("click", () => jump(view.player.steps.length - 1));
  byId("before").addEventListener("click", () => move(-1));
  byId("after").addEventListener("click", () => move(1));
  byId("play").addEventListener("click", () => play(view.timer === null));
  byId("speed").addEventListener("change", () => { if (view.timer !== null) play(true); });
  byId("mark").addEventListener("click", () => mark(view.index));
  byId("scrubber").addEventListener("input", (event) => jump(Number(event.target.value)));
  byId("filter").addEventListener("change", (event) => { view.filter = event.target.value; drawMarks(); draw(); });
  byId("help-button").addEventListener("click", showHelp);
  byId("source").addEventListener("change", (event) => chooseSource(event.target.value));
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", () => { if (stepOfAddress() >= 0) jump(stepOfAddress()); });
}

async function begin() {
  listen();
  const embedded = byId("recording");
  if (embedded) {
    byId("source").parentElement.hidden = true;
    show(JSON.parse(embedded.textContent));
    return;
  }
  view.server = await (await fetch("server.json")).json();
  await load(view.server.source);
  if (view.player !== null) {
    sources();
    byId("follow-label").hidden = view.server.files.length === 0;
    window.setInterval(follow, FOLLOW_MS);
  }
}

begin().catch((error) => problem(`The page could not begin: ${error.message}`));

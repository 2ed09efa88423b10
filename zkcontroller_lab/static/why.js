// Why: the lines of a step, the code that decided, what changed, and two moments compared.

import { byId, el } from "./dom.js";
import { differences, headline, ownerOf, seconds } from "./frames.js";

const NEAR = 9;
const MOST_DIFFERENCES = 60;
const LONGEST_VALUE = 160;
const KINDS = {
  event: "event", question: "asks", answer: "answer", effect: "effect", log: "logs", request: "request",
  zookeeper: "ZooKeeper", notification: "watch", queued: "queue", intervention: "you", note: "", error: "error", broken: "broken",
};

export function drawWhy(player, index, before, state, jump) {
  const step = player.steps[index];
  const cause = step.cause === undefined ? null
    : el("button", { type: "button", class: "link", onclick: () => jump(step.cause) }, `because of step ${step.cause}: ${cut(headline(player.steps[step.cause]), 70)}`);
  return [
    el("h2", {}, "Why"),
    step.caption ? el("p", { class: "caption" }, step.caption) : null,
    el("p", { class: "when" }, `step ${index}, after ${seconds(step)} `, cause),
    el("ol", {}, ...step.lines.map((line) => drawLine(player, line))),
    drawChanges(before, state),
  ];
}

function drawLine(player, line) {
  const owner = ownerOf(line);
  const who = owner ? el("span", { class: "who" }, `${owner} `) : null;
  return el("li", {},
    el("span", { class: `kind ${line.kind}` }, KINDS[line.kind] ?? line.kind),
    el("span", { class: "text" }, who, line.text, ...place(player, line)));
}

function place(player, line) {
  if (!line.place) return [];
  const [index, number] = line.place;
  const code = player.recording.code[index];
  const name = `${code.file}:${number} ${code.function}`;
  return [el("br"), el("button", { type: "button", class: "link", onclick: () => showCode(code, number) }, name)];
}

export function showCode(code, number) {
  const lines = code.text.replace(/\n$/, "").split("\n");
  const dialog = byId("code");
  const decided = (at) => (code.first_line + at === number ? "decided" : false);
  dialog.replaceChildren(
    el("h2", {}, `${code.file}:${number}  ${code.function}`),
    el("pre", {}, ...lines.map((line, at) =>
      el("span", { class: decided(at) }, el("span", { class: "number" }, `${String(code.first_line + at).padStart(5)}  `), line))),
    el("form", { method: "dialog" }, el("button", { autofocus: true }, "Close")));
  dialog.showModal();
  const found = dialog.querySelector(".decided");
  if (found) found.scrollIntoView({ block: "center" });
}

function drawChanges(before, state) {
  const found = differences(before, state);
  if (found.length === 0) return null;
  return el("div", { class: "changes" }, el("h2", {}, "What changed"), list(found));
}

function list(found) {
  const rest = found.length - MOST_DIFFERENCES;
  return el("ul", {}, ...found.slice(0, MOST_DIFFERENCES).flatMap(difference),
    rest > 0 ? el("li", {}, `and ${rest} more`) : null);
}

function difference([key, was, is]) {
  if (was === undefined || is === undefined) {
    return [el("li", {}, `${key}: `, was === undefined ? cut(JSON.stringify(is), LONGEST_VALUE) : el("span", { class: "was" }, cut(JSON.stringify(was), LONGEST_VALUE)))];
  }
  return fields(key, was, is).map(([name, one, other]) =>
    el("li", {}, `${name}: `, el("span", { class: "was" }, cut(one, LONGEST_VALUE)), ` ${cut(other, LONGEST_VALUE)}`));
}

// [name, before, after] of each field that differs, inside of objects as well.
function fields(name, was, is) {
  if (JSON.stringify(was) === JSON.stringify(is)) return [];
  if (isObject(was) && isObject(is)) {
    const names = [...new Set([...Object.keys(was), ...Object.keys(is)])];
    return names.flatMap((each) => fields(`${name} ${each.replaceAll("_", " ")}`, was[each], is[each]));
  }
  return [[name, shown(was), shown(is)]];
}

function shown(value) {
  if (value === undefined || value === "") return "nothing";
  return typeof value === "string" ? value : JSON.stringify(value);
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function cut(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

export function drawComparison(marked, index, before, state, clear) {
  const found = differences(before, state);
  return [
    el("h2", {}, `From step ${marked} to step ${index}`),
    found.length ? list(found) : el("p", {}, "Nothing differs."),
    el("p", {}, el("button", { type: "button", onclick: clear }, "Forget the marked step")),
  ];
}

export function drawSteps(player, index, shows, jump) {
  const near = [index];
  for (let at = index - 1; at >= 0 && near.length <= NEAR; at--) if (shows(at)) near.unshift(at);
  const wanted = near.length + NEAR;
  for (let at = index + 1; at < player.steps.length && near.length < wanted; at++) if (shows(at)) near.push(at);
  return [el("h2", {}, "Steps"), el("ol", {}, ...near.map((at) => {
    const step = player.steps[at];
    return el("li", { class: step.caption ? "captioned" : false },
      el("button", { type: "button", "aria-current": at === index ? "step" : false, onclick: () => jump(at) },
        el("span", { class: "number" }, String(at)), el("span", { class: "time" }, seconds(step)),
        el("span", { class: "headline", title: headline(step) }, step.caption ? cut(step.caption, 90) : cut(headline(step), 90))));
  }))];
}

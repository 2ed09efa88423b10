// Interventions: what a reader may do to the run at this step. Only a page with its server has them.

import { el } from "./dom.js";

export function drawActs(source, meanings, state, step, chosen, choose, intervene, remove, saveTest) {
  const brokers = [...state.keys()].filter((key) => key.startsWith("broker/")).map((key) => key.slice(7));
  const select = el("select", { "aria-label": "Broker", onchange: (event) => choose(event.target.value) },
    ...brokers.map((id) => el("option", { value: id, selected: id === chosen }, `broker ${id}`)));
  const buttons = Object.entries(meanings).map(([act, meaning]) => {
    const broker = state.get(`broker/${chosen}`);
    const isPossible = act === "delete-controller" ? state.has("znode/controller") : broker && possible(act, broker);
    return el("button", { type: "button", title: meaning, disabled: !isPossible, onclick: () => intervene(act) }, act.replace("-", " "));
  });
  const done = source.interventions.map((each, at) =>
    el("span", { class: "done" }, `${each.act}${each.broker === undefined ? "" : ` ${each.broker}`} after turn ${each.turn}`,
      el("button", { type: "button", title: "Take it back", "aria-label": "Take it back", onclick: () => remove(at) }, "×")));
  return [
    el("strong", {}, "Here and now:"), select, ...buttons,
    el("span", { class: "break" }), ...done,
    el("button", { type: "button", onclick: saveTest, title: "A pytest file that repeats this run" }, "Save as test"),
    el("a", { href: exportAddress(source), download: "run.html" }, "One file to keep"),
  ];
}

function possible(act, broker) {
  const isAlive = broker.process !== "dead";
  switch (act) {
    case "start": return !isAlive;
    case "pause": return broker.process === "running";
    case "resume": return broker.process === "paused";
    case "connect": return isAlive && broker.is_cut_off;
    case "cut": return isAlive && !broker.is_cut_off;
    case "expire": return isAlive && broker.session === "alive";
    default: return isAlive;
  }
}

export function query(source) {
  const found = new URLSearchParams();
  if (source.kind === "seed") found.set("seed", String(source.seed));
  else if (source.kind === "lesson") found.set("lesson", source.lesson);
  else found.set("files", "1");
  for (const each of source.interventions ?? []) {
    found.append("act", `${each.act}${each.broker === undefined ? "" : ` ${each.broker}`}@${each.turn}`);
  }
  return found.toString();
}

function exportAddress(source) {
  return `export?${query(source)}`;
}

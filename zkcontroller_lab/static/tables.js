// The tables below the picture: partitions with every broker's view of them, and znodes.

import { el } from "./dom.js";
import { byNumbers } from "./frames.js";

const LONGEST_DATA = 400;
const MOST_ROWS = 200;

export function drawPartitions(state, before, filter, choose) {
  const brokers = [...state.keys()].filter((key) => key.startsWith("broker/")).map((key) => key.slice(7)).sort(byNumbers);
  let rows = [...state.keys()].filter((key) => key.startsWith("partition/")).sort(byNumbers);
  if (filter) rows = rows.filter((key) => key === `partition/${filter}`);
  if (rows.length === 0) return [el("h2", {}, "Partitions"), el("p", {}, "There is none yet.")];
  const heads = ["partition", "leader", "leader epoch", "ISR", "state version", ...brokers.map((id) => `broker ${id}`)];
  const table = el("table", {},
    el("thead", {}, el("tr", {}, ...heads.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, ...rows.slice(0, MOST_ROWS).map((key) => row(key, state, before, brokers, choose))));
  const rest = rows.length - MOST_ROWS;
  return [el("h2", {}, "Partitions"), table, rest > 0 ? el("p", {}, `and ${rest} more`) : null];
}

function row(key, state, before, brokers, choose) {
  const name = key.slice("partition/".length);
  const partition = state.get(key);
  const is_changed = JSON.stringify(partition) !== JSON.stringify(before.get(key));
  const hasLeader = partition.leader !== null && partition.leader !== undefined && partition.leader >= 0;
  const leader = hasLeader ? String(partition.leader)
    : el("span", { class: "none" }, partition.leader === -1 ? "none (-1)" : "never had one");
  const moving = [];
  if ((partition.adding_replicas ?? []).length) moving.push(`+${partition.adding_replicas.join(", ")}`);
  if ((partition.removing_replicas ?? []).length) moving.push(`−${partition.removing_replicas.join(", ")}`);
  return el("tr", { class: is_changed ? "is-changed" : false },
    el("th", { scope: "row" },
      el("button", { type: "button", title: "Show only this partition", onclick: () => choose(name) }, name),
      moving.length ? el("div", { class: "moving" }, moving.join(" ")) : null),
    el("td", {}, leader),
    el("td", {}, partition.leader_epoch ?? ""),
    el("td", {}, (partition.isr ?? []).join(", ")),
    el("td", {}, partition.zk_version ?? ""),
    ...brokers.map((id) => el("td", {}, ...cell(id, partition, state.get(`broker/${id}`)))));
}

function cell(id, partition, broker) {
  const number = Number(id);
  const belief = (partition.brokers ?? {})[id];
  const isReplica = (partition.replicas ?? []).includes(number) || (partition.isr ?? []).includes(number);
  if (!isReplica && !belief) return [];
  const role = partition.leader === number ? "leader" : (partition.isr ?? []).includes(number) ? "in sync" : isReplica ? "not in sync" : "not a replica";
  const type = broker.process === "dead" ? "dead" : { leader: "leader", "in sync": "follower" }[role] ?? "behind";
  const found = [el("span", { class: `role ${type}` }, broker.process === "dead" ? `${role}, dead` : role)];
  const knows = belief && belief.leader_epoch !== undefined;
  if (knows && partition.leader_epoch !== undefined && belief.leader_epoch !== partition.leader_epoch) {
    const words = belief.leader === partition.leader ? `still in epoch ${belief.leader_epoch}`
      : belief.leader === number ? `thinks that it leads, epoch ${belief.leader_epoch}`
      : `still follows broker ${belief.leader}, epoch ${belief.leader_epoch}`;
    found.push(el("span", { class: "belief" }, words));
  } else if (!belief && partition.brokers && partition.leader !== null && broker.process !== "dead") {
    found.push(el("span", { class: "belief" }, "does not know yet"));
  }
  return found;
}

// Registrations are long and rarely what one looks for.
function znodeRank(key) {
  return key.startsWith("znode/brokers/ids") ? 2 : key.startsWith("znode/controller") ? 0 : 1;
}

export function drawZnodes(state, before, filter) {
  const [, topic, number] = filter ? filter.match(/^(.*)-(\d+)$/) : [];
  const ofPartition = `znode/brokers/topics/${topic}/partitions/${number}`;
  let rows = [...state.keys()].filter((key) => key.startsWith("znode")).sort((one, other) => znodeRank(one) - znodeRank(other) || byNumbers(one, other));
  rows = rows.filter((key) => state.get(key).data !== "" || JSON.stringify(state.get(key)) !== JSON.stringify(before.get(key)));
  if (filter) rows = rows.filter((key) => key.startsWith(ofPartition) || key === `znode/brokers/topics/${topic}`);
  return el("table", {},
    el("thead", {}, el("tr", {}, ...["path", "version", "data", "owner"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, ...rows.slice(0, MOST_ROWS).map((key) => {
      const znode = state.get(key);
      const is_changed = JSON.stringify(znode) !== JSON.stringify(before.get(key));
      const data = znode.data.length > LONGEST_DATA ? `${znode.data.slice(0, LONGEST_DATA)}…` : znode.data;
      return el("tr", { class: is_changed ? "is-changed" : false },
        el("td", {}, key.slice("znode".length)), el("td", {}, znode.version), el("td", {}, data),
        el("td", {}, znode.owner === undefined ? "" : `broker ${znode.owner}`));
    })));
}

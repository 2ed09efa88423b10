// A recording: steps with changes. The frame after a step is all changes up to it.

const KEYFRAME_EACH = 64;

export class Player {
  constructor(recording) {
    this.recording = recording;
    this.steps = recording.steps;
    this.keyframes = [];
    ownerKind = this.steps.some((step) => "node/1" in step.changes) ? "node" : "broker";
  }

  // The state after the step at index; an empty Map before the first one.
  frame(index) {
    let at = Math.min(Math.floor(index / KEYFRAME_EACH), this.keyframes.length - 1);
    let state = at >= 0 ? new Map(this.keyframes[at]) : new Map();
    let next = at >= 0 ? at * KEYFRAME_EACH + 1 : 0;
    for (; next <= index; next++) {
      apply(state, this.steps[next].changes);
      if (next % KEYFRAME_EACH === 0 && next / KEYFRAME_EACH === this.keyframes.length) {
        this.keyframes.push(new Map(state));
      }
    }
    return state;
  }

  partitions() {
    const found = new Set();
    for (const step of this.steps) {
      for (const key of Object.keys(step.changes)) {
        if (key.startsWith("partition/")) found.add(key.slice("partition/".length));
      }
    }
    return [...found].sort(byNumbers);
  }

  concerns(index, partition) {
    if (!partition) return true;
    const step = this.steps[index];
    if (step.caption) return true;
    if (step.lines.some((line) => line.partitions && line.partitions.includes(partition))) return true;
    return `partition/${partition}` in step.changes;
  }
}

function apply(state, changes) {
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) state.delete(key);
    else state.set(key, value);
  }
}

export function byNumbers(one, other) {
  return one.localeCompare(other, "en", { numeric: true });
}

// [key, before, after] of every key that differs; undefined where there is none.
export function differences(before, after) {
  const found = [];
  for (const key of new Set([...before.keys(), ...after.keys()])) {
    const [was, is] = [before.get(key), after.get(key)];
    if (JSON.stringify(was) !== JSON.stringify(is)) found.push([key, was, is]);
  }
  return found.sort((one, other) => byNumbers(one[0], other[0]));
}

const RANK = ["broken", "intervention", "error", "event", "zookeeper", "request", "notification", "note", "answer", "effect", "question", "log", "queued"];

// The line that names the step in a list.
export function headline(step) {
  let best = null;
  for (const line of step.lines) {
    if (best === null || RANK.indexOf(line.kind) < RANK.indexOf(best.kind)) best = line;
  }
  return best === null ? "" : words(best);
}

// Whose line it is; empty where the text says it. A recording is of brokers or of nodes.
let ownerKind = "broker";

export function ownerOf(line) {
  return line.broker === undefined || /^(broker |\[)/.test(line.text) ? "" : `${ownerKind} ${line.broker}`;
}

export function words(line) {
  const owner = ownerOf(line);
  return owner ? `${owner}: ${line.text}` : line.text;
}

export function seconds(step) {
  return `${(step.time_ms / 1000).toFixed(3)} s`;
}

// Real Kafka clusters in tests, by `zkctl serve`.  Needs nothing but Node 18.
//
// startServer() starts `zkctl serve` as a child (the program that ZKCTL names, or zkctl on the PATH).  The child and its
// clusters end with close(), and with this process, however it ends: its stdin is a pipe that we hold.

import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';

const START_MS = 30_000;
const END_MS = 20_000;
const STDERR_CHARACTERS = 4_000;
const NOT_RENAMED = new Set(['configs', 'disks', 'clientConfig', 'stateChanges']);

/** What the server refused, or what did not come in time (error 'not_in_time'). */
export class KafkaClusterError extends Error {
  constructor(status, answer) {
    super(`${answer.error}${answer.field ? ` (${answer.field})` : ''}: ${answer.message}`);
    this.name = 'KafkaClusterError';
    this.status = status;
    this.error = answer.error;
    this.field = answer.field;
  }
}

/** Starts `zkctl serve`; `command` is the program and its first arguments. */
export async function startServer({ command = [process.env.ZKCTL || 'zkctl'], artefacts } = {}) {
  const token = randomBytes(16).toString('hex');
  const options = artefacts ? ['--artefacts', artefacts] : [];
  const child = spawn(command[0], [...command.slice(1), 'serve', '-o', 'jsonl', ...options], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...process.env, ZKCTL_SERVE_TOKEN: token },
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text) => { said = (said + text).slice(-STDERR_CHARACTERS); });
  const url = await firstLine(child, () => said).then((line) => JSON.parse(line).url, (error) => {
    child.kill();
    throw error;
  });
  for (const handle of [child, child.stdin, child.stdout, child.stderr]) handle.unref();
  return new Server(url, token, child);
}

function firstLine(child, said) {
  return new Promise((resolve, reject) => {
    const fail = (why) => reject(new Error(`zkctl serve did not start: ${why} ${said()}`));
    const timer = setTimeout(() => fail(`nothing within ${START_MS} ms`), START_MS);
    let text = '';
    child.once('error', (error) => { clearTimeout(timer); fail(error.message); });
    child.once('close', (code) => { clearTimeout(timer); fail(`it ended with ${code}`); });
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      text += chunk;
      if (text.includes('\n')) { clearTimeout(timer); resolve(text.split('\n')[0]); }
    });
  });
}

/** A server that runs: started by startServer(), or one at an address that is known. */
export class Server {
  constructor(url, token = null, child = null) {
    this.url = url;
    this.token = token;
    this.child = child;
  }

  describe() { return this.call('GET', '/'); }
  openapi() { return this.call('GET', '/openapi.json'); }
  async holdPoints() { return (await this.call('GET', '/hold_points')).holdPoints; }
  async clusters() { return (await this.call('GET', '/clusters')).clusters; }
  /** Starts a cluster: { brokers, zookeeper, listeners, configs, disks }. */
  async createCluster(settings = {}) { return new KafkaCluster(this, await this.call('POST', '/clusters', settings)); }

  /** Ends the server and all its clusters. */
  async close() {
    if (this.child === null || this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = new Promise((resolve) => { this.child.once('exit', resolve); });
    this.child.ref();
    this.child.stdin.end();
    const timer = setTimeout(() => this.child.kill('SIGKILL'), END_MS);
    await ended;
    clearTimeout(timer);
  }

  /** One request; the answer, or null where there is none. Names are camelCase here and snake_case there. */
  async call(method, path, fields) {
    const hasQuery = (method === 'GET' || method === 'DELETE') && fields !== undefined;
    const query = hasQuery ? `?${new URLSearchParams(renamed(fields, snake))}` : '';
    const headers = this.token === null ? {} : { Authorization: `Bearer ${this.token}` };
    const response = await fetch(this.url + path + query, {
      method,
      headers: hasQuery || fields === undefined ? headers : { ...headers, 'Content-Type': 'application/json' },
      body: hasQuery || fields === undefined ? undefined : JSON.stringify(renamed(fields, snake)),
    });
    const text = await response.text();
    const answer = text === '' ? null : JSON.parse(text);
    if (!response.ok) throw new KafkaClusterError(response.status, answer);
    return path === '/openapi.json' ? answer : renamed(answer, camel);
  }
}

const snake = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const camel = (name) => name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());

function renamed(value, rename) {
  if (Array.isArray(value)) return value.map((each) => renamed(each, rename));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, each]) => each !== undefined)
      .map(([name, each]) => {
        const key = rename(name);
        return [key, NOT_RENAMED.has(key) ? each : renamed(each, rename)];
      }),
  );
}

/** A cluster.  Its verbs are those of the kit (docs/testing.md); waits take { timeoutS }. */
export class KafkaCluster {
  constructor(server, described) {
    this.server = server;
    this.id = described.cluster;
    this.bootstrapServers = described.bootstrapServers;
    this.clientConfig = described.clientConfig;
    this.zookeeperConnect = described.zookeeperConnect;
    this.directory = described.directory;
    this.brokerIds = described.brokerIds;
  }

  /** One request about this cluster. */
  at(method, path, fields) { return this.server.call(method, `/clusters/${this.id}${path}`, fields); }

  /** Addresses, controllerId, controllerEpoch, liveBrokers as they are now. */
  describe() { return this.at('GET', ``); }
  /** Ends all its processes; the folder, if keepFiles. */
  async close({ keepFiles = false } = {}) { return (await this.at('DELETE', ``, { keepFiles })).directory; }

  broker(broker) { return this.at('GET', `/brokers/${broker}`); }
  start(broker, options = {}) { return this.at('POST', `/brokers/${broker}/start`, options); }
  stop(broker, options = {}) { return this.at('POST', `/brokers/${broker}/stop`, options); }
  kill(broker) { return this.at('POST', `/brokers/${broker}/kill`); }
  pause(broker) { return this.at('POST', `/brokers/${broker}/pause`); }
  resume(broker) { return this.at('POST', `/brokers/${broker}/resume`); }
  bounce(broker, options = {}) { return this.at('POST', `/brokers/${broker}/bounce`, options); }
  expireSession(broker) { return this.at('POST', `/brokers/${broker}/expire_session`); }
  diskFull(broker) { return this.at('POST', `/brokers/${broker}/disk_full`); }
  freeDisk(broker) { return this.at('POST', `/brokers/${broker}/free_disk`); }
  makeDiskReadOnly(broker) { return this.at('POST', `/brokers/${broker}/make_disk_read_only`); }
  losePageCache(broker) { return this.at('POST', `/brokers/${broker}/lose_page_cache`); }
  mendDisk(broker) { return this.at('POST', `/brokers/${broker}/mend_disk`); }
  setClock(broker, aheadMs) { return this.at('POST', `/brokers/${broker}/set_clock`, { aheadMs }); }
  waitStopped(broker, options = {}) { return this.at('POST', `/brokers/${broker}/wait_stopped`, options); }
  waitUnregistered(broker, options = {}) { return this.at('POST', `/brokers/${broker}/wait_unregistered`, options); }
  loseZookeeperResponse(broker, options = {}) { return this.at('POST', `/brokers/${broker}/lose_zookeeper_response`, options); }
  async waitRegistered(brokerIds = [], options = {}) {
    return (await this.at('POST', `/wait_registered`, { brokerIds, ...options })).brokerEpoch;
  }

  async controllerId() { return (await this.describe()).controllerId; }
  waitController(options = {}) { return this.at('POST', `/wait_controller`, options); }
  deleteController() { return this.at('POST', `/delete_controller`); }
  electController(options = {}) { return this.at('POST', `/elect_controller`, options); }
  /** Holds controllers at a step: waitReached() and release(). */
  async hold(name, options = {}) { return new Hold(this, (await this.at('POST', `/holds`, { name, ...options })).hold); }

  createTopic(name, options = {}) { return this.at('POST', `/topics`, { name, ...options }); }
  partition(topic, partition = 0) { return this.at('GET', `/topics/${encodeURIComponent(topic)}/partitions/${partition}`); }
  async waitLeader(topic, partition = 0, options = {}) {
    return (await this.at('POST', `/topics/${encodeURIComponent(topic)}/partitions/${partition}/wait_leader`, options)).leader;
  }
  async waitIsr(topic, partition = 0, options = {}) {
    return (await this.at('POST', `/topics/${encodeURIComponent(topic)}/partitions/${partition}/wait_isr`, options)).isr;
  }

  cut(a, b, options = {}) { return this.at('POST', `/cut`, { a, b, ...options }); }
  heal() { return this.at('POST', `/heal`); }
  async delay(api, delayMs, options = {}) { return new Fault(this, await this.at('POST', `/delay`, { api, delayMs, ...options })); }
  async drop(api, options = {}) { return new Fault(this, await this.at('POST', `/drop`, { api, ...options })); }
  async fail(api, error, options = {}) { return new Fault(this, await this.at('POST', `/fail`, { api, error, ...options })); }
  async faults() { return (await this.at('GET', `/faults`)).faults; }
  offerVersions(api, least, most, options = {}) { return this.at('POST', `/offer_versions`, { api, least, most, ...options }); }

  async versionsUsed(api) { return (await this.at('GET', `/versions_used`, { api })).versions; }

  znode(path) { return this.at('GET', `/znode`, { path }); }
  setZnode(path, data) { return this.at('PUT', `/znode`, { path, ...bytes(data) }); }
  async deleteZnode(path) { return (await this.at('DELETE', `/znode`, { path })).deleted; }
  corruptZnode(path, data) { return this.at('POST', `/znode/corrupt`, { path, ...(data === undefined ? {} : bytes(data)) }); }
  async watch(path) { return new Watch(this, (await this.at('POST', `/watches`, { path })).watch); }

  async ledger(topic, partition = 0) { return new Ledger(this, await this.at('POST', `/ledgers`, { topic, partition })); }
  /** Throws unless each acknowledged record of the ledgers (by default: all) is there. */
  async noAcknowledgedRecordLost(...ledgers) {
    demand(await this.at('POST', `/checks/no_acknowledged_record_lost`, { ledgers: ledgers.map((each) => each.id) }));
  }
  /** Throws if an epoch fell, or had two owners. */
  async epochsMonotonic() { demand(await this.at('POST', `/checks/epochs_monotonic`)); }
  async stateChanges(last = 1000) { return (await this.at('GET', `/state_changes`, { last })).stateChanges; }
  async journal(last = 1000) { return (await this.at('GET', `/journal`, { last })).journal; }
  writeArtefacts() { return this.at('POST', `/artefacts`); }
}

function bytes(data) {
  return typeof data === 'string' ? { text: data } : { base64: Buffer.from(data).toString('base64') };
}

function demand({ holds, reason }) {
  if (!holds) throw new Error(reason);
}

/** A fault on the network; it ends by remove(), or with the cluster's heal(). */
class Fault {
  constructor(cluster, described) {
    this.cluster = cluster;
    this.id = described.fault;
  }

  /** How often it has happened. */
  async count() { return (await this.cluster.at('GET', `/faults/${this.id}`)).count; }
  async remove() { return (await this.cluster.at('DELETE', `/faults/${this.id}`)).count; }
}

/** A step of the controller that is held. */
class Hold {
  constructor(cluster, id) {
    this.cluster = cluster;
    this.id = id;
  }

  waitReached(options = {}) { return this.cluster.at('POST', `/holds/${this.id}/wait_reached`, options); }
  release() { return this.cluster.at('DELETE', `/holds/${this.id}`); }
}

/** The state of a znode at a moment. */
class Watch {
  constructor(cluster, id) {
    this.cluster = cluster;
    this.id = id;
  }

  /** The znode after the next change. */
  waitChange(options = {}) { return this.cluster.at('POST', `/watches/${this.id}/wait_change`, options); }
  remove() { return this.cluster.at('DELETE', `/watches/${this.id}`); }
}

/** Writes records with acks=all, and knows which were acknowledged. */
class Ledger {
  constructor(cluster, described) {
    this.cluster = cluster;
    this.id = described.ledger;
  }

  describe() { return this.cluster.at('GET', `/ledgers/${this.id}`); }
  async produce(count = 1, options = {}) { return (await this.cluster.at('POST', `/ledgers/${this.id}/produce`, { count, ...options })).offsets; }
  startProducing() { return this.cluster.at('POST', `/ledgers/${this.id}/start_producing`); }
  stopProducing() { return this.cluster.at('POST', `/ledgers/${this.id}/stop_producing`); }
  async acknowledged() { return (await this.cluster.at('GET', `/ledgers/${this.id}/acknowledged`)).records; }
  async read(options = {}) { return (await this.cluster.at('POST', `/ledgers/${this.id}/read`, options)).records; }
  async lost(options = {}) { return (await this.cluster.at('POST', `/ledgers/${this.id}/lost`, options)).records; }
}

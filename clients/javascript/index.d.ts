export type Peer = number | 'clients' | 'zookeeper';
export interface Wait { timeoutS?: number }
export interface ClusterSettings {
  brokers?: number;
  zookeeper?: string;
  listeners?: 'plaintext' | 'tls' | 'sasl' | 'sasl_tls' | 'oauth' | 'oauth_tls';
  configs?: Record<string, string>;
  disks?: Record<number, number>;
}
export interface FaultOptions {
  broker?: number;
  sender?: number | 'clients';
  clientId?: string;
  topic?: string;
  times?: number | null;
}
export interface Controller { controllerId: number; controllerEpoch: number }
export interface ClusterState {
  cluster: number;
  state: 'starting' | 'running' | 'removing';
  bootstrapServers: string;
  clientConfig: Record<string, string>;
  zookeeperConnect: string;
  directory: string;
  brokerIds: number[];
  liveBrokers: number[];
  controllerId: number | null;
  controllerEpoch: number;
}
export interface PartitionState { leader: number; leaderEpoch: number; isr: number[]; controllerEpoch: number }
export interface Znode { path: string; text: string | null; base64: string | null; version: number | null }
export interface LedgerRecord { offset: number; value: string }
export interface LedgerState { ledger: number; topic: string; partition: number; isProducing: boolean; acknowledged: number }
export interface FaultState { fault: number; action: string; api: string; count: number }

export class KafkaClusterError extends Error {
  status: number;
  error: string;
  field: string | null;
}
export function startServer(options?: { command?: string[]; artefacts?: string }): Promise<Server>;

export class Server {
  constructor(url: string, token?: string | null);
  url: string;
  describe(): Promise<{ version: string; clusters: number; mostClusters: number }>;
  openapi(): Promise<Record<string, unknown>>;
  holdPoints(): Promise<{ name: string; meaning: string }[]>;
  clusters(): Promise<number[]>;
  createCluster(settings?: ClusterSettings): Promise<KafkaCluster>;
  close(): Promise<void>;
}

export class KafkaCluster {
  id: number;
  bootstrapServers: string;
  clientConfig: Record<string, string>;
  zookeeperConnect: string;
  directory: string;
  brokerIds: number[];
  describe(): Promise<ClusterState>;
  close(options?: { keepFiles?: boolean }): Promise<string | null>;
  broker(broker: number): Promise<{ brokerId: number; isAlive: boolean; pid: number | null; brokerEpoch: number; logsDirectory: string }>;
  start(broker: number, options?: { wait?: boolean }): Promise<null>;
  stop(broker: number, options?: { wait?: boolean } & Wait): Promise<null>;
  kill(broker: number): Promise<null>;
  pause(broker: number): Promise<null>;
  resume(broker: number): Promise<null>;
  bounce(broker: number, options?: { clean?: boolean }): Promise<null>;
  expireSession(broker: number): Promise<null>;
  diskFull(broker: number): Promise<null>;
  freeDisk(broker: number): Promise<null>;
  makeDiskReadOnly(broker: number): Promise<null>;
  losePageCache(broker: number): Promise<null>;
  mendDisk(broker: number): Promise<null>;
  setClock(broker: number, aheadMs: number): Promise<null>;
  waitStopped(broker: number, options?: Wait): Promise<null>;
  waitUnregistered(broker: number, options?: Wait): Promise<null>;
  waitRegistered(brokerIds?: number[], options?: { afterEpoch?: number } & Wait): Promise<number>;
  loseZookeeperResponse(broker: number, options?: { operation?: 'create' | 'delete' | 'set' | 'multi'; times?: number }): Promise<null>;
  controllerId(): Promise<number | null>;
  waitController(options?: { afterEpoch?: number } & Wait): Promise<Controller>;
  deleteController(): Promise<null>;
  electController(options?: Wait): Promise<Controller>;
  hold(name: string, options?: { broker?: number }): Promise<Hold>;
  createTopic(
    name: string,
    options?: { partitions?: number; replicationFactor?: number; configs?: Record<string, string>; replicas?: number[][] } & Wait,
  ): Promise<null>;
  partition(topic: string, partition?: number): Promise<PartitionState>;
  waitLeader(topic: string, partition?: number, options?: { among?: number[] } & Wait): Promise<number>;
  waitIsr(topic: string, partition?: number, options?: { brokers?: number[] } & Wait): Promise<number[]>;
  cut(a: Peer, b: Peer, options?: { oneWay?: boolean; silent?: boolean }): Promise<null>;
  heal(): Promise<null>;
  delay(api: string | number, delayMs: number, options?: FaultOptions): Promise<Fault>;
  drop(api: string | number, options?: FaultOptions & { answer?: boolean }): Promise<Fault>;
  fail(api: string | number, error: string | number, options?: FaultOptions): Promise<Fault>;
  faults(): Promise<FaultState[]>;
  offerVersions(api: string | number, least: number, most: number, options?: { broker?: number }): Promise<null>;
  versionsUsed(api: string | number): Promise<number[]>;
  znode(path: string): Promise<Znode>;
  setZnode(path: string, data: string | Uint8Array): Promise<Znode>;
  deleteZnode(path: string): Promise<boolean>;
  corruptZnode(path: string, data?: string | Uint8Array): Promise<Znode>;
  watch(path: string): Promise<Watch>;
  ledger(topic: string, partition?: number): Promise<Ledger>;
  noAcknowledgedRecordLost(...ledgers: Ledger[]): Promise<void>;
  epochsMonotonic(): Promise<void>;
  stateChanges(last?: number): Promise<Record<string, unknown>[]>;
  journal(last?: number): Promise<{ atMs: number; text: string }[]>;
  writeArtefacts(): Promise<{ directory: string; files: string[] }>;
}

export interface Fault { count(): Promise<number>; remove(): Promise<number> }
export interface Hold {
  waitReached(options?: Wait): Promise<{ brokerId: number; name: string; detail: string }>;
  release(): Promise<null>;
}
export interface Watch { waitChange(options?: Wait): Promise<Znode>; remove(): Promise<null> }
export interface Ledger {
  id: number;
  describe(): Promise<LedgerState>;
  produce(count?: number, options?: Wait): Promise<number[]>;
  startProducing(): Promise<LedgerState>;
  stopProducing(): Promise<LedgerState>;
  acknowledged(): Promise<LedgerRecord[]>;
  read(options?: Wait): Promise<LedgerRecord[]>;
  lost(options?: Wait): Promise<LedgerRecord[]>;
}

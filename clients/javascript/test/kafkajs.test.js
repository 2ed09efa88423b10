// kafkajs goes on through another controller, a killed leader, and errors that the kit makes.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import kafkajs from 'kafkajs';
import { KafkaClusterError, startServer } from '../index.js';

const TEST_MS = 90_000;
let server, cluster, kafka;

before(async () => {
  server = await startServer();
  cluster = await server.createCluster({ brokers: 3 });
  kafka = new kafkajs.Kafka({
    brokers: cluster.bootstrapServers.split(','),
    logLevel: kafkajs.logLevel.NOTHING,
    retry: { initialRetryTime: 50, retries: 30, maxRetryTime: 500 },
  });
});

after(async () => { await server?.close(); });

afterEach(async () => {
  await cluster.heal();
  await cluster.epochsMonotonic();
});

test('records survive another controller and a killed leader', { timeout: TEST_MS }, async (t) => {
  await cluster.createTopic('orders', { partitions: 1, replicationFactor: 3 });
  await cluster.waitIsr('orders');
  const consumer = kafka.consumer({ groupId: 'readers', sessionTimeout: 6000, heartbeatInterval: 500 });
  const producer = kafka.producer();
  // Open connections would keep this process from its end, where the test fails.
  t.after(() => Promise.all([consumer.disconnect(), producer.disconnect()]));
  await consumer.connect();
  await consumer.subscribe({ topic: 'orders', fromBeginning: true });
  const values = [];
  const lastSeen = new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => { if (!payload.restart) reject(payload.error); });
    consumer.run({
      eachMessage: async ({ message }) => {
        values.push(message.value.toString());
        if (values.at(-1) === 'under another leader') resolve();
      },
    }).catch(reject);
  });
  await producer.connect();
  const send = (value) => producer.send({ topic: 'orders', acks: -1, messages: [{ value }] });
  await send('before');

  const epoch = (await cluster.describe()).controllerEpoch;
  const elected = await cluster.electController();
  assert.ok(elected.controllerEpoch > epoch);
  await send('under another controller');

  const leader = await cluster.waitLeader('orders');
  await cluster.kill(leader);
  await cluster.expireSession(leader);
  const others = cluster.brokerIds.filter((each) => each !== leader);
  assert.ok(others.includes(await cluster.waitLeader('orders', 0, { among: others })));
  await send('under another leader');
  await lastSeen;
  assert.deepEqual([...new Set(values)], ['before', 'under another controller', 'under another leader']);

  await cluster.start(leader);
  await cluster.waitIsr('orders');
});

test('a producer tries again after an error', async () => {
  await cluster.createTopic('refused');
  const fault = await cluster.fail('Produce', 'NOT_LEADER_OR_FOLLOWER', { topic: 'refused', times: 2 });
  const producer = kafka.producer();
  await producer.connect();

  const [{ baseOffset }] = await producer.send({ topic: 'refused', messages: [{ value: 'once' }] });
  await producer.disconnect();

  assert.equal(baseOffset, '0');
  assert.equal(await fault.count(), 2);
});

test('a wait that does not come says what it saw', async () => {
  const wait = cluster.waitRegistered([1], { afterEpoch: 2 ** 40, timeoutS: 0.2 });
  await assert.rejects(wait, (error) => {
    assert.ok(error instanceof KafkaClusterError);
    assert.equal(error.status, 504);
    assert.match(error.message, /not_in_time: not within 0.2 s: brokers/);
    return true;
  });
});

test('a mistake is answered with the field at fault', async () => {
  await assert.rejects(cluster.delay('Produce', -1), { status: 400, error: 'invalid', field: 'delay_ms' });
  await assert.rejects(cluster.kill(9), { status: 404, error: 'not_found' });
});

test('a ledger loses nothing that was acknowledged', async () => {
  await cluster.createTopic('payments');
  await cluster.waitIsr('payments');
  const ledger = await cluster.ledger('payments');
  await ledger.startProducing();
  await cluster.bounce(await cluster.waitLeader('payments'), { clean: false });
  await ledger.stopProducing();

  await cluster.noAcknowledgedRecordLost(ledger);
  assert.deepEqual(await ledger.lost(), []);
});

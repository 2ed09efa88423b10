// What a program with kafkajs does: run by test_kafkajs.py with the bootstrap servers as argument,
// prints what it has seen as one line of JSON.
'use strict'

const { Kafka, CompressionTypes, logLevel } = require('kafkajs')

const [brokers, topic] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'story', brokers: brokers.split(','), logLevel: logLevel.ERROR })

async function readGroup(groupId, count) {
  const consumer = kafka.consumer({
    groupId,
    sessionTimeout: 6000,
    heartbeatInterval: 200,
    maxWaitTimeInMs: 100, // else the end waits for a fetch under way
  })
  const read = []
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error))
    consumer.run({
      eachMessage: async ({ partition, message }) => {
        read.push([partition, message.offset, String(message.key), String(message.value),
          String(message.headers.source)])
        if (read.length >= count) resolve()
      },
    }).catch(reject)
  })
  await consumer.disconnect() // commits what was read
  return read
}

async function main() {
  const admin = kafka.admin()
  await admin.connect()
  const created = await admin.createTopics({
    topics: [{ topic, numPartitions: 2, replicationFactor: 3 }],
  })
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  const send = (from, to, compression) => producer.send({
    topic,
    acks: -1,
    compression,
    messages: Array.from({ length: to - from }, (_, i) => ({
      key: `key ${from + i}`,
      value: `value ${from + i}`,
      partition: (from + i) % 2,
      headers: { source: 'story' },
    })),
  })
  await send(0, 10, CompressionTypes.None)
  await send(10, 20, CompressionTypes.GZIP)
  const first = await readGroup('kafkajs-group', 20)
  await send(20, 24, CompressionTypes.None)
  const second = await readGroup('kafkajs-group', 4)
  await producer.disconnect()
  const offsets = await admin.fetchTopicOffsets(topic)
  const byTime = await admin.fetchTopicOffsetsByTimestamp(topic, 0)
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '5' }] })
  const afterDeletion = await admin.fetchTopicOffsets(topic)
  await admin.deleteTopics({ topics: [topic] })
  await admin.disconnect()
  console.log(JSON.stringify({ created, first, second, offsets, byTime, afterDeletion }))
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})

// What a user of kafkajs does, told as one line of JSON; see tests/compat/test_other_clients.py.
"use strict";

const { Kafka, CompressionTypes, PartitionAssigners, logLevel } = require("kafkajs");

const RECORDS = 1000;
const PARTITIONS = 4;
const DEADLINE_MS = 60_000;

const [server, topic, group] = process.argv.slice(2);
const kafka = new Kafka({
  brokers: server.split(","),
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 50, retries: 10 },
});
const admin = kafka.admin();
const told = {};
const ends = Date.now() + DEADLINE_MS;

async function until(condition, what) {
  while (!(await condition())) {
    if (Date.now() > ends) throw new Error(`not in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function outcome(work) {
  try {
    await work;
    return "NONE";
  } catch (error) {
    // Several groups or topics may fail in one call; here it is always one.
    const cause = (error.groups ?? error.errors ?? [])[0];
    return cause?.error?.type ?? cause?.type ?? error.type ?? error.message;
  }
}

async function produce(word, count) {
  const producer = kafka.producer({ idempotent: true });
  await producer.connect();
  const messages = Array.from({ length: count }, (_, number) => ({
    value: `${word} ${number}`,
    partition: number % PARTITIONS,
  }));
  await producer.send({ topic, messages, compression: CompressionTypes.GZIP });
  await producer.disconnect();
}

async function member(read) {
  const consumer = kafka.consumer({
    groupId: group,
    heartbeatInterval: 200,
    sessionTimeout: 6000,
    rebalanceTimeout: 10_000,
    maxWaitTimeInMs: 50,
    partitionAssigners: [PartitionAssigners.roundRobin],
  });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommitThreshold: 1,
    eachMessage: async ({ message }) => {
      read.push(message.value.toString());
    },
  });
  return consumer;
}

async function settled(state, members) {
  let found;
  await until(async () => {
    [found] = (await admin.describeGroups([group])).groups;
    return found.state === state && found.members.length === members;
  }, `${state} with ${members} members`);
  return found;
}

async function committed() {
  const [{ partitions }] = await admin.fetchOffsets({ groupId: group, topics: [topic] });
  return partitions.map(({ offset }) => Number(offset)).sort((a, b) => a - b);
}

async function groups() {
  await produce("first", RECORDS);
  const read = [];
  const one = await member(read);
  await until(() => read.length >= RECORDS, "all read");
  told["read alone"] = [read.length, new Set(read).size];
  const two = await member(read);
  told.protocol = (await settled("Stable", 2)).protocol;
  told["delete live"] = await outcome(admin.deleteGroups([group]));
  await two.disconnect();
  await settled("Stable", 1);
  await one.disconnect();
  await settled("Empty", 0);
  told.committed = await committed();
  await produce("second", 10);
  const rest = [];
  const back = await member(rest);
  await until(() => rest.length >= 10, "the rest");
  await back.disconnect();
  told.resumed = rest.sort();
}

async function administration() {
  const listed = (await admin.listGroups()).groups;
  told.listed = listed.filter(({ groupId }) => groupId === group).map((each) => each.protocolType);
  const partitions = [{ partition: 0, offset: "3" }];
  told.altered = await outcome(admin.setOffsets({ groupId: group, topic, partitions }));
  told["after altering"] = await committed();
  told.deleted = await outcome(admin.deleteGroups([group]));
  told["deleted again"] = await outcome(admin.deleteGroups([group]));
  const [{ state, errorCode }] = (await admin.describeGroups([group])).groups;
  told["described no more"] = [state, errorCode];
}

async function transactions() {
  const name = `${topic}-transactions`;
  const producer = kafka.producer({ transactionalId: name, idempotent: true, maxInFlightRequests: 1 });
  await admin.createTopics({ topics: [{ topic: name, numPartitions: 1 }] });
  await producer.connect();
  for (const end of ["abort", "commit", "abort"]) {
    const transaction = await producer.transaction();
    await transaction.send({ topic: name, messages: [{ value: `${end} 1` }, { value: `${end} 2` }] });
    await transaction[end]();
  }
  await producer.disconnect();
  const read = [];
  const reader = kafka.consumer({ groupId: name, readUncommitted: false, maxWaitTimeInMs: 50 });
  await reader.connect();
  await reader.subscribe({ topics: [name], fromBeginning: true });
  await reader.run({
    eachMessage: async ({ message }) => {
      read.push([Number(message.offset), message.value.toString()]);
    },
  });
  await until(() => read.length >= 2, "the committed ones");
  await reader.disconnect();
  told["committed ones"] = read;
}

async function main() {
  await admin.connect();
  const topics = [{ topic, numPartitions: PARTITIONS }];
  told.created = await admin.createTopics({ topics, waitForLeaders: true });
  told["created again"] = await admin.createTopics({ topics });
  await groups();
  await administration();
  await transactions();
  await admin.disconnect();
  process.stdout.write(`${JSON.stringify(told)}\n`);
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});

// Kafka's own integration tests start their brokers by `new KafkaServer(config, …)`. This class has that name and stands
// before Kafka's on the class path: each of its instances is a process of one of our brokers, on the ZooKeeper and in the
// log directories that the test has chosen.
//
// What tests ask of the object and can be asked from outside is answered so: leaders, topic ids and live brokers by a
// Metadata request to the broker (by ZooKeeper where it takes no plain connection), offsets by ListOffsets, the
// controller, ACLs, quotas and delegation tokens by ZooKeeper, directories by a look into them, connections and logins by
// the port of metrics. What tests ask of the controller and is a request of the protocol is sent as one. Everything else throws
// InsideTheBroker: such a test looks into the broker's process, and says nothing about ours.
package kafka.server

import java.io.{DataInputStream, DataOutputStream, File, FileOutputStream, IOException}
import java.lang.reflect.{InvocationTargetException, Method, Proxy}
import java.net.{InetAddress, ServerSocket, Socket}
import java.nio.ByteBuffer
import java.nio.file.Files
import java.time.Duration
import java.util
import java.util.Properties
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicInteger

import kafka.cluster.{EndPoint, Partition}
import kafka.controller.{AlterPartitionReceived, ApiPartitionReassignment, ControllerContext, ControllerEventManager, KafkaController}
import org.apache.kafka.coordinator.group.GroupCoordinator
import kafka.log.{LogManager, UnifiedLog}
import kafka.log.remote.RemoteLogManager
import kafka.network.SocketServer
import org.apache.kafka.security.CredentialProvider
import kafka.server.metadata.ZkMetadataCache
import kafka.zk.{AdminZkClient, DelegationTokensZNode, KafkaZkClient}
import org.apache.kafka.common.{KafkaException, TopicPartition, Uuid}
import org.apache.kafka.common.config.types.Password
import org.apache.kafka.common.errors.NotLeaderOrFollowerException
import org.apache.kafka.common.message.{AlterPartitionReassignmentsRequestData, ControlledShutdownRequestData, ListOffsetsRequestData, ProduceRequestData}
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData.{ReassignablePartition, ReassignableTopic}
import org.apache.kafka.common.message.ListOffsetsRequestData.{ListOffsetsPartition, ListOffsetsTopic}
import org.apache.kafka.common.message.ProduceRequestData.{PartitionProduceData, TopicProduceData, TopicProduceDataCollection}
import org.apache.kafka.common.message.UpdateMetadataRequestData.{UpdateMetadataBroker, UpdateMetadataEndpoint, UpdateMetadataPartitionState}
import org.apache.kafka.common.metrics.{MetricConfig, Metrics, Quota}
import org.apache.kafka.common.network.ListenerName
import org.apache.kafka.common.protocol.{Errors, MessageUtil}
import org.apache.kafka.common.record.BaseRecords
import org.apache.kafka.common.requests._
import org.apache.kafka.common.security.JaasUtils
import org.apache.kafka.common.security.auth.{KafkaPrincipalBuilder, PlaintextAuthenticationContext, SecurityProtocol}
import org.apache.kafka.common.security.authenticator.CredentialCache
import org.apache.kafka.common.security.scram.internals.ScramCredentialUtils
import org.apache.kafka.common.security.token.delegation.TokenInformation
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache
import org.apache.kafka.common.utils.{Sanitizer, Time, Utils}
import org.apache.kafka.metadata.BrokerState
import org.apache.kafka.server.authorizer.Authorizer
import org.apache.kafka.server.NodeToControllerChannelManager
import org.apache.kafka.server.common.MetadataVersion
import org.apache.kafka.server.config.QuotaConfigs
import org.apache.kafka.server.metrics.{KafkaMetricsGroup, KafkaYammerMetrics}
import org.apache.kafka.server.util.Scheduler
import org.apache.kafka.storage.internals.log.{LogConfig, LogSegment}
import org.apache.zookeeper.client.ZKClientConfig
import org.junit.jupiter.api.extension.{ConditionEvaluationResult, ExecutionCondition, ExtensionContext}
import org.mockito.Mockito
import org.mockito.invocation.InvocationOnMock

import scala.collection.mutable
import scala.io.Source
import scala.jdk.CollectionConverters._
import scala.util.Try

/** What a test asks of the broker's process, and nothing outside of it can answer. */
class InsideTheBroker(what: String) extends UnsupportedOperationException(s"$what is inside the broker's process")

/** Leaves out the runs of a test on a KRaft quorum, and those with the group protocol of KIP-848, which needs one. */
class OnlyZooKeeper extends ExecutionCondition {
  override def evaluateExecutionCondition(context: ExtensionContext): ConditionEvaluationResult = {
    val name = context.getDisplayName
    if (Seq("kraft", "KRaft", "Raft-", "Co-KRaft", "groupProtocol=consumer").exists(name.contains(_)))
      ConditionEvaluationResult.disabled("not of ZooKeeper mode")
    else ConditionEvaluationResult.enabled("")
  }
}

object KafkaServer {
  /** The command that runs a broker with the properties file whose path follows it. */
  private val command = System.getProperty("broker.command").split(" ")
  private val directory = new File(System.getProperty("broker.directory"))
  private val started = new AtomicInteger
  private val processes = new util.concurrent.ConcurrentLinkedQueue[Process]
  private val PrincipalBuilderKey = "principal.builder.class"
  private val StartMs = 60000L
  private val StopMs = 90000L
  /** How long a change that was made in ZooKeeper may take to come to a broker. */
  private val PropagationMs = 300L

  Runtime.getRuntime.addShutdownHook(new Thread(() => processes.forEach(process => process.destroyForcibly())))

  /** Also for AclAuthorizer; no test of these clusters reaches ZooKeeper by TLS, some log in there. */
  def zkClientConfigFromKafkaConfig(config: KafkaConfig, forceZkSslClientEnable: Boolean = false): ZKClientConfig = {
    val made = new ZKClientConfig
    made.setProperty("zookeeper.sasl.client", Try(JaasUtils.isZkSaslEnabled).getOrElse(false).toString)
    made
  }

  private def text(value: Any): String = value match {
    case password: Password => password.value
    case named: Class[_] => named.getName
    case several: util.Collection[_] => several.asScala.map(text).mkString(",")
    case other => String.valueOf(other)
  }

  private def standIn[T](of: Class[T])(answers: PartialFunction[(String, Seq[Any]), Any]): T =
    Mockito.mock(of, (call: InvocationOnMock) => {
      val name = call.getMethod.getName
      if (name.contains("$default$")) call.callRealMethod()
      else answers.applyOrElse((name, call.getArguments.toSeq), (_: (String, Seq[Any])) =>
        throw new InsideTheBroker(s"${of.getSimpleName}.$name")).asInstanceOf[AnyRef]
    }: AnyRef)
}

class KafkaServer(
  val config: KafkaConfig,
  time: Time = Time.SYSTEM,
  threadNamePrefix: Option[String] = None,
  enableForwarding: Boolean = false
) extends KafkaBroker with Server {
  import KafkaServer._

  @volatile private var state = BrokerState.NOT_RUNNING
  private var process: Process = _
  private var endPoints: collection.Seq[EndPoint] = Seq.empty
  private var metricsPort = 0
  private var zookeeper: KafkaZkClient = _
  private var permissions: Option[Authorizer] = None
  private var known: Set[TopicPartition] = Set.empty
  private var before = ""
  private var tokens: collection.Seq[TokenInformation] = Seq.empty

  private def id: Int = config.brokerId
  private[kafka] def zkClient: KafkaZkClient = zookeeper
  override def brokerState: BrokerState =
    if (state == BrokerState.RUNNING && !process.isAlive) BrokerState.NOT_RUNNING else state
  override def clusterId: String = if (zookeeper == null) null else zookeeper.getClusterId.orNull
  override def authorizer: Option[Authorizer] = permissions
  override def boundPort(listenerName: ListenerName): Int = ports(listenerName.value)
  def advertisedListeners: collection.Seq[EndPoint] = endPoints
  private def ports: Map[String, Int] = endPoints.map(each => each.listenerName.value -> each.port).toMap
  override def isShutdown(): Boolean = state == BrokerState.NOT_RUNNING
  override def awaitShutdown(): Unit = if (process != null) process.waitFor()
  def getLogManager: LogManager = logManager

  private def inside(what: String) = throw new InsideTheBroker(what)
  override def dataPlaneRequestHandlerPool: KafkaRequestHandlerPool = inside("dataPlaneRequestHandlerPool")
  override def kafkaScheduler: Scheduler = inside("kafkaScheduler")
  override def kafkaYammerMetrics: KafkaYammerMetrics = inside("kafkaYammerMetrics")
  override def remoteLogManagerOpt: Option[RemoteLogManager] = None
  override def metrics: Metrics = {
    val made = new Metrics
    listenerCounts.foreach { case (name, tags, count) =>
      made.addMetric(made.metricName(name, "socket-server-metrics", tags.asJava), (_: MetricConfig, _: Long) => count)
    }
    made
  }
  override def quotaManagers: QuotaFactory.QuotaManagers = QuotaFactory.QuotaManagers(
    bounds(classOf[ClientQuotaManager], QuotaConfigs.CONSUMER_BYTE_RATE_OVERRIDE_CONFIG),
    bounds(classOf[ClientQuotaManager], QuotaConfigs.PRODUCER_BYTE_RATE_OVERRIDE_CONFIG),
    bounds(classOf[ClientRequestQuotaManager], QuotaConfigs.REQUEST_PERCENTAGE_OVERRIDE_CONFIG),
    bounds(classOf[ControllerMutationQuotaManager], QuotaConfigs.CONTROLLER_MUTATION_RATE_OVERRIDE_CONFIG),
    null, null, null, None)
  override def brokerTopicStats: BrokerTopicStats = inside("brokerTopicStats")
  override def clientToControllerChannelManager: NodeToControllerChannelManager = inside("clientToControllerChannelManager")
  override lazy val tokenCache: DelegationTokenCache = standIn(classOf[DelegationTokenCache]) {
    case ("tokens", _) =>
      val found = zookeeper.getChildren(DelegationTokensZNode.path).flatMap(zookeeper.getDelegationTokenInfo)
      if (tokens != found) Thread.sleep(PropagationMs)
      tokens = found
      found.asJavaCollection
  }

  private val ListenerCount = "kafka_server_socket_server_metrics_(\\w+)\\{(.*networkProcessor.*)\\} (.*)".r
  private val Tag = "(\\w+)=\"([^\"]*)\"".r

  /** What Prometheus would read of listeners: names as in JMX, tags and numbers. */
  private def listenerCounts: Seq[(String, Map[String, String], Double)] = {
    val page = Source.fromURL(s"http://127.0.0.1:$metricsPort/metrics")
    try page.getLines().collect { case ListenerCount(name, tags, count) if !count.contains("NaN") =>
      (name.replace('_', '-'), Tag.findAllMatchIn(tags).map(each => each.group(1) -> each.group(2)).toMap, count.toDouble)
    }.toList finally page.close()
  }

  /** The bounds that ZooKeeper has for clients, by this key. */
  private def bounds[T <: ClientQuotaManager](of: Class[T], key: String): T = standIn(of) {
    case ("quota", Seq(user: String, client: String)) =>
      Thread.sleep(PropagationMs)
      val names = Seq(Sanitizer.sanitize(user), "<default>")
      val clients = Seq(Sanitizer.sanitize(client), "<default>").filter(_.nonEmpty)
      val paths = names.flatMap(name => clients.map(each => "users" -> s"$name/clients/$each") :+ ("users" -> name)) ++ clients.map("clients" -> _)
      val found = paths.flatMap { case (kind, path) => Option(new AdminZkClient(zookeeper).fetchEntityConfig(kind, path).getProperty(key)) }
      Quota.upperBound(found.headOption.map(_.toDouble).getOrElse(Long.MaxValue.toDouble))
  }

  override def startup(): Unit = {
    if (zookeeper != null) zookeeper.close()
    val number = started.incrementAndGet()
    zookeeper = KafkaZkClient(config.zkConnect, isSecure = false, 30000, 30000, 10, Time.SYSTEM, name = "stand-in",
      zkClientConfig = zkClientConfigFromKafkaConfig(config), metricGroup = "stand-in", metricType = s"broker$number",
      createChrootIfNecessary = true)
    val here = new File(directory, s"broker-$number")
    here.mkdirs()
    val (output, errors) = (new File(here, "stdout"), new File(here, "stderr"))
    val builder = new ProcessBuilder((command ++ Seq(properties(here).getPath, "--metrics-port", "0")): _*)
    builder.redirectOutput(output)
    builder.redirectError(errors)
    // The JVM has found its logins in this file, if there is one.
    Option(System.getProperty("java.security.auth.login.config")).foreach(file =>
      builder.environment.put("KAFKA_OPTS", s"-Djava.security.auth.login.config=$file"))
    if (principalBuilders.nonEmpty) {
      builder.environment.put("PRINCIPALS_PORT", servePrincipals().toString)
      if (!principalBuilders.contains(PrincipalBuilderKey)) // Others keep theirs.
        builder.environment.put("PRINCIPALS_LISTENERS", principalBuilders.keys.map(_.split("\\.")(2).toUpperCase).mkString(","))
    }
    process = builder.start()
    processes.add(process)
    metadataCache // Made while the broker starts: the first takes seconds, for which tests do not wait.
    val deadline = System.currentTimeMillis + StartMs
    while (output.length == 0) {
      if (!process.isAlive) {
        zookeeper.close() // Tests look whether threads are left.
        zookeeper = null
        throw new KafkaException("The broker ended: " + new String(Files.readAllBytes(errors.toPath)).takeRight(600))
      }
      if (System.currentTimeMillis > deadline) throw new KafkaException(s"The broker did not start; see $errors")
      Thread.sleep(20)
    }
    if (id < 0) // The broker has generated its id.
      "broker_id: *([0-9]+)".r.findFirstMatchIn(new String(Files.readAllBytes(output.toPath))).foreach(found => config._brokerId = found.group(1).toInt)
    metricsPort = "metrics_port: *([0-9]+)".r.findFirstMatchIn(new String(Files.readAllBytes(output.toPath))).get.group(1).toInt
    val expired: util.function.Supplier[Double] = () => listenerCounts.collect { case ("expired-connections-killed-count", _, count) => count }.sum
    new KafkaMetricsGroup(classOf[SocketServer]).newGauge("ExpiredConnectionsKilledCount", expired)
    endPoints = zookeeper.getBroker(id).get.endPoints
    permissions = config.createNewAuthorizer().map { made => made.configure(config.originals); afterPropagation(made) }
    state = BrokerState.RUNNING
  }

  override def shutdown(timeout: Duration): Unit = {
    if (process != null && process.isAlive) {
      state = BrokerState.SHUTTING_DOWN
      process.destroy()
      if (!process.waitFor(math.min(timeout.toMillis, StopMs), TimeUnit.MILLISECONDS)) {
        process.destroyForcibly().waitFor()
        throw new KafkaException(s"Broker $id did not stop in time and was killed")
      }
    }
    state = BrokerState.NOT_RUNNING
    permissions.foreach(_.close())
    permissions = None
    if (zookeeper != null) zookeeper.close()
    zookeeper = null
  }

  private def properties(here: File): File = {
    val made = new Properties
    config.originals.asScala.foreach { case (key, value) => if (value != null) made.setProperty(key, text(value)) }
    principalBuilders.keys.foreach(made.remove(_))
    // Kafka's tests also run on versions of the quorum that are not released, which ZooKeeper mode does not have.
    if (made.getProperty("inter.broker.protocol.version", "").startsWith("4.")) made.remove("inter.broker.protocol.version")
    // By the clocks of some tests it is 1970; by ours their records would be old enough to be deleted.
    if (math.abs(System.currentTimeMillis - time.milliseconds) > TimeUnit.DAYS.toMillis(1)) made.setProperty("log.retention.ms", "-1")
    val file = new File(here, "server.properties")
    val out = new FileOutputStream(file)
    try made.store(out, null) finally out.close()
    file
  }

  // Principals that a test's own class makes: the broker asks this JVM for each connection.

  /** By the key of the configuration. */
  private lazy val principalBuilders: Map[String, KafkaPrincipalBuilder] =
    config.originals.asScala.toMap.collect { case (key, value) if key.endsWith(PrincipalBuilderKey) && value != null =>
      key -> Class.forName(text(value)).getDeclaredConstructor().newInstance().asInstanceOf[KafkaPrincipalBuilder]
    }

  private def servePrincipals(): Int = {
    val server = new ServerSocket(0, 500, InetAddress.getLoopbackAddress)
    val thread = new Thread(() => while (true) {
      val asked = server.accept()
      try {
        val listener = new String(asked.getInputStream.readAllBytes)
        val builder = principalBuilders.getOrElse(s"listener.name.${listener.toLowerCase}.$PrincipalBuilderKey", principalBuilders(PrincipalBuilderKey))
        val made = builder.build(new PlaintextAuthenticationContext(InetAddress.getLoopbackAddress, listener))
        asked.getOutputStream.write(s"${made.getPrincipalType}:${made.getName}".getBytes)
      } finally asked.close()
    }, "principals")
    thread.setDaemon(true)
    thread.start()
    server.getLocalPort
  }

  /** The test's own authorizer on the same ZooKeeper. A test that sees a rule here takes it for known to the broker. */
  private def afterPropagation(made: Authorizer): Authorizer =
    Proxy.newProxyInstance(getClass.getClassLoader, Array[Class[_]](classOf[Authorizer]), (_: Any, method: Method, arguments: Array[Object]) => {
      if (method.getName == "acls") Thread.sleep(PropagationMs)
      try method.invoke(made, Option(arguments).getOrElse(Array.empty[Object]): _*)
      catch { case failure: InvocationTargetException => throw failure.getCause }
    }).asInstanceOf[Authorizer]

  // Requests to the broker

  private def plainPort: Option[Int] =
    if (config.originals.containsKey("authorizer.class.name")) None
    else config.effectiveListenerSecurityProtocolMap.collectFirst {
      case (listener, SecurityProtocol.PLAINTEXT) if ports.contains(listener.value) => ports(listener.value)
    }

  private def ask[T <: AbstractResponse](port: Int, request: AbstractRequest): T = {
    val socket = new Socket("localhost", port)
    try {
      val header = new RequestHeader(request.apiKey, request.version, "stand-in", 1)
      val bytes = Utils.toArray(request.serializeWithHeader(header))
      val out = new DataOutputStream(socket.getOutputStream)
      out.writeInt(bytes.length)
      out.write(bytes)
      out.flush()
      val in = new DataInputStream(socket.getInputStream)
      val answer = new Array[Byte](in.readInt())
      in.readFully(answer)
      val buffer = ByteBuffer.wrap(answer)
      ResponseHeader.parse(buffer, request.apiKey.responseHeaderVersion(request.version))
      AbstractResponse.parseResponse(request.apiKey, buffer, request.version).asInstanceOf[T]
    } finally socket.close()
  }

  private def offset(tp: TopicPartition, timestamp: Long): Long = {
    val partition = new ListOffsetsPartition().setPartitionIndex(tp.partition).setTimestamp(timestamp).setCurrentLeaderEpoch(-1)
    val data = new ListOffsetsRequestData()
      .setReplicaId(if (partitionState(tp).exists(_.leader == id)) -1 else -2)
      .setTopics(util.Arrays.asList(new ListOffsetsTopic().setName(tp.topic).setPartitions(util.Arrays.asList(partition))))
    val port = plainPort.getOrElse(inside("an offset"))
    val response = ask[ListOffsetsResponse](port, ListOffsetsRequest.parse(MessageUtil.toByteBuffer(data, 4.toShort), 4.toShort))
    response.topics.get(0).partitions.get(0).offset
  }

  // What the broker knows of the cluster

  private def statesOfBroker(port: Int, ids: util.Map[String, Uuid]): (Seq[UpdateMetadataPartitionState], Set[Int], Int) = {
    val response = ask[MetadataResponse](port, MetadataRequest.Builder.allTopics().build(12.toShort))
    val states = response.data.topics.asScala.flatMap { topic =>
      ids.put(topic.name, topic.topicId)
      topic.partitions.asScala.map(each => new UpdateMetadataPartitionState()
        .setTopicName(topic.name).setPartitionIndex(each.partitionIndex).setLeader(each.leaderId).setLeaderEpoch(each.leaderEpoch)
        .setIsr(each.isrNodes).setReplicas(each.replicaNodes).setOfflineReplicas(each.offlineReplicas))
    }
    (states.toSeq, response.brokers.asScala.map(_.id).toSet, Option(response.controller).map(_.id).getOrElse(-1))
  }

  private def statesOfZooKeeper(ids: util.Map[String, Uuid]): (Seq[UpdateMetadataPartitionState], Set[Int], Int) = {
    val topics = zookeeper.getAllTopicsInCluster()
    zookeeper.getTopicIdsForTopics(topics).foreach { case (topic, each) => ids.put(topic, each) }
    val replicas = zookeeper.getReplicaAssignmentForTopics(topics)
    val states = zookeeper.getTopicPartitionStates(replicas.keys.toSeq).map { case (tp, found) =>
      val each = found.leaderAndIsr
      new UpdateMetadataPartitionState()
        .setTopicName(tp.topic).setPartitionIndex(tp.partition).setLeader(each.leader).setLeaderEpoch(each.leaderEpoch)
        .setIsr(each.isr.map(Integer.valueOf(_)).asJava).setReplicas(replicas(tp).map(Integer.valueOf(_)).asJava)
    }.toSeq
    val live = zookeeper.getAllBrokersInCluster.map(_.id).toSet
    val seen = states.map(_.toString).sorted.mkString + live
    if (seen != before) Thread.sleep(PropagationMs)
    before = seen
    (states, live, zookeeper.getControllerId.getOrElse(-1))
  }

  private def knownMetadata(): UpdateMetadataRequest = synchronized {
    val ids = new util.HashMap[String, Uuid]
    val (states, live, controller) = plainPort.filter(_ => process.isAlive).map(statesOfBroker(_, ids)).getOrElse(statesOfZooKeeper(ids))
    val now = states.map(each => new TopicPartition(each.topicName, each.partitionIndex)).toSet
    val gone = (known -- now).toSeq.map(tp => new UpdateMetadataPartitionState()
      .setTopicName(tp.topic).setPartitionIndex(tp.partition).setLeader(-2).setLeaderEpoch(0))
    known = now
    val brokers = zookeeper.getAllBrokersInCluster.filter(each => live(each.id)).map(each => new UpdateMetadataBroker()
      .setId(each.id).setRack(each.rack.orNull).setEndpoints(each.endPoints.map(end => new UpdateMetadataEndpoint()
        .setHost(end.host).setPort(end.port).setListener(end.listenerName.value).setSecurityProtocol(end.securityProtocol.id)).asJava))
    new UpdateMetadataRequest.Builder(8.toShort, controller, 1, 1, (states ++ gone).asJava, brokers.asJava, ids).build()
  }

  private val isFetching = ThreadLocal.withInitial(() => false)

  /** Kafka's cache, which is brought up to date before each question. */
  lazy val metadataCache: ZkMetadataCache = {
    val settings = Mockito.withSettings()
      .useConstructor(Integer.valueOf(id), MetadataVersion.IBP_3_9_IV0, BrokerFeatures.createEmpty(), java.lang.Boolean.FALSE)
      .defaultAnswer((call: InvocationOnMock) => {
        if (!isFetching.get && process != null && zookeeper != null) {
          isFetching.set(true)
          try call.getMock.asInstanceOf[ZkMetadataCache].updateMetadata(0, knownMetadata())
          catch { case _: IOException => } // It is stopping.
          finally isFetching.set(false)
        }
        call.callRealMethod()
      })
    isFetching.set(true)
    try Mockito.mock(classOf[ZkMetadataCache], settings) finally isFetching.set(false)
  }

  private def partitionState(tp: TopicPartition): Option[UpdateMetadataPartitionState] = metadataCache.getPartitionInfo(tp.topic, tp.partition)

  private def folder(tp: TopicPartition): Option[File] =
    config.logDirs.map(each => new File(new File(each).getAbsoluteFile, tp.toString)).find(_.isDirectory)

  private def isHosted(tp: TopicPartition): Boolean =
    brokerState == BrokerState.RUNNING && folder(tp).isDefined && partitionState(tp).exists(_.replicas.contains(id))

  // The parts of a broker that tests hold in their hands

  private def log(tp: TopicPartition): UnifiedLog = standIn(classOf[UnifiedLog]) {
    case ("logStartOffset", _) => offset(tp, ListOffsetsRequest.EARLIEST_TIMESTAMP)
    case ("logEndOffset" | "highWatermark", _) => offset(tp, ListOffsetsRequest.LATEST_TIMESTAMP)
    case ("topicPartition", _) => tp
    case ("dir", _) => folder(tp).get
    case ("topicId", _) => zookeeper.getTopicIdsForTopics(Set(tp.topic)).get(tp.topic)
    case ("appendAsLeader", Seq(records: BaseRecords, _*)) => produce(tp, records); null
    case ("flush" | "updateHighWatermark", _) => null // The broker does both by itself.
    case ("logSegments", _) =>
      folder(tp).get.listFiles.filter(_.getName.endsWith(".log")).sorted.map { file =>
        LogSegment.open(file.getParentFile, file.getName.stripSuffix(".log").toLong, new LogConfig(new Properties), Time.SYSTEM, true, 0, false, "")
      }.toSeq.asJava
  }

  private def produce(tp: TopicPartition, records: BaseRecords): Unit = {
    val partition = new PartitionProduceData().setIndex(tp.partition).setRecords(records)
    val topic = new TopicProduceData().setName(tp.topic).setPartitionData(util.Arrays.asList(partition))
    val data = new ProduceRequestData().setAcks(1).setTimeoutMs(30000)
      .setTopicData(new TopicProduceDataCollection(util.Arrays.asList(topic).iterator))
    val port = plainPort.getOrElse(inside("a record"))
    val response = ask[ProduceResponse](port, ProduceRequest.parse(MessageUtil.toByteBuffer(data, 9.toShort), 9.toShort))
    Errors.forCode(response.data.responses.iterator.next.partitionResponses.get(0).errorCode).maybeThrow()
  }

  private def partition(tp: TopicPartition): Partition = {
    val found = partitionState(tp).get
    standIn(classOf[Partition]) {
      case ("leaderReplicaIdOpt", _) => Some(found.leader)
      case ("leaderLogIfLocal", _) => if (found.leader == id) Some(log(tp)) else None
      case ("isLeader", _) => found.leader == id
      case ("getLeaderEpoch", _) => found.leaderEpoch
      case ("inSyncReplicaIds", _) => found.isr.asScala.map(_.intValue).toSet
      case ("topicPartition", _) => tp
    }
  }

  lazy val dataPlaneRequestProcessor: KafkaApis = standIn(classOf[KafkaApis]) {
    case ("metadataCache", _) => metadataCache
    case ("brokerId", _) => id
    case ("config", _) => config
    case ("clusterId", _) => clusterId
    case ("authorizer", _) => permissions
  }

  lazy val socketServer: SocketServer = standIn(classOf[SocketServer]) {
    case ("boundPort", Seq(listener: ListenerName)) => boundPort(listener)
    case ("config", _) => config
  }

  lazy val replicaManager: ReplicaManager = standIn(classOf[ReplicaManager]) {
    case ("metadataCache", _) => metadataCache
    case ("config", _) => config
    case ("logManager", _) => logManager
    case ("onlinePartition", Seq(tp: TopicPartition)) => if (isHosted(tp)) Some(partition(tp)) else None
    case ("localLog", Seq(tp: TopicPartition)) => if (isHosted(tp)) Some(log(tp)) else None
    case ("localLogOrException", Seq(tp: TopicPartition)) => if (isHosted(tp)) log(tp) else throw new NotLeaderOrFollowerException
  }

  lazy val logManager: LogManager = standIn(classOf[LogManager]) {
    case ("getLog", Seq(tp: TopicPartition, _*)) => folder(tp).map(_ => log(tp))
    case ("getOrCreateLog", Seq(tp: TopicPartition, _*)) if folder(tp).isDefined => log(tp)
    case ("liveLogDirs", _) => config.logDirs.map(new File(_))
  }

  lazy val kafkaController: KafkaController = standIn(classOf[KafkaController]) {
    case ("isActive", _) => zookeeper.getControllerId.contains(id)
    case ("brokerEpoch", _) => zookeeper.getAllBrokerAndEpochsInCluster.find(_._1.id == id).get._2
    case ("config", _) => config
    case ("controllerContext", _) => controllerContext
    case ("eventManager", _) => controllerEvents
    case ("controlledShutdown", Seq(broker: Int, epoch: Long, callback: (Try[collection.Set[TopicPartition]] => Unit) @unchecked)) =>
      val data = new ControlledShutdownRequestData().setBrokerId(broker).setBrokerEpoch(epoch)
      val response = askController[ControlledShutdownResponse](new ControlledShutdownRequest.Builder(data, 3.toShort).build(3.toShort))
      callback(Try {
        response.error.maybeThrow()
        response.data.remainingPartitions.asScala.map(each => new TopicPartition(each.topicName, each.partitionIndex)).toSet
      })
      null
  }

  private def askController[T <: AbstractResponse](request: AbstractRequest): T =
    ask(plainPort.getOrElse(inside("the controller")), request)

  /** Events that are requests of brokers and clients are sent as such. */
  private lazy val controllerEvents: ControllerEventManager = standIn(classOf[ControllerEventManager]) {
    case ("put", Seq(AlterPartitionReceived(data, version, callback))) =>
      if (version < 3) data.topics.forEach(_.partitions.forEach { each => // As the builder of such a request does.
        if (!each.newIsrWithEpochs.isEmpty) each.setNewIsr(each.newIsrWithEpochs.asScala.map(state => Integer.valueOf(state.brokerId)).asJava).setNewIsrWithEpochs(new util.ArrayList)
      })
      callback(askController[AlterPartitionResponse](AlterPartitionRequest.parse(MessageUtil.toByteBuffer(data, version), version)).data)
      null
    case ("put", Seq(ApiPartitionReassignment(reassignments, callback))) =>
      val topics = reassignments.groupBy(_._1.topic).map { case (topic, each) =>
        new ReassignableTopic().setName(topic).setPartitions(each.map { case (tp, replicas) =>
          new ReassignablePartition().setPartitionIndex(tp.partition).setReplicas(replicas.map(_.map(Integer.valueOf(_)).asJava).orNull)
        }.toSeq.asJava)
      }
      val data = new AlterPartitionReassignmentsRequestData().setTopics(topics.toSeq.asJava)
      val response = askController[AlterPartitionReassignmentsResponse](new AlterPartitionReassignmentsRequest.Builder(data).build()).data
      callback(
        if (response.errorCode != 0) Right(new ApiError(Errors.forCode(response.errorCode), response.errorMessage))
        else Left(response.responses.asScala.flatMap(topic => topic.partitions.asScala.map(each =>
          new TopicPartition(topic.name, each.partitionIndex) -> new ApiError(Errors.forCode(each.errorCode), each.errorMessage))).toMap))
      null
  }

  private def controllerContext: ControllerContext = {
    val ids = zookeeper.getTopicIdsForTopics(zookeeper.getAllTopicsInCluster())
    val (epoch, stat) = zookeeper.getControllerEpoch.get
    standIn(classOf[ControllerContext]) {
      case ("topicIds", _) => mutable.Map.from(ids)
      case ("topicNames", _) => mutable.Map.from(ids.map(_.swap))
      case ("epoch", _) => epoch
      case ("epochZkVersion", _) => stat.getVersion
      case ("allTopics", _) => mutable.Set.from(zookeeper.getAllTopicsInCluster())
      case ("liveBrokerIdAndEpochs", _) => zookeeper.getAllBrokerAndEpochsInCluster.map { case (broker, epoch) => broker.id -> epoch }
      case ("partitionLeadershipInfo", Seq(tp: TopicPartition)) => zookeeper.getTopicPartitionStates(Seq(tp)).get(tp)
      case ("partitionsLeadershipInfo", _) =>
        val replicas = zookeeper.getReplicaAssignmentForTopics(zookeeper.getAllTopicsInCluster())
        zookeeper.getTopicPartitionStates(replicas.keys.toSeq)
    }
  }

  lazy val groupCoordinator: GroupCoordinator = standIn(classOf[GroupCoordinator]) {
    case ("groupMetadataTopicConfigs", _) =>
      val made = new Properties
      Seq("cleanup.policy" -> "compact", "compression.type" -> "producer", "segment.bytes" -> "104857600")
        .foreach { case (key, value) => made.setProperty(key, value) }
      made
  }

  lazy val credentialProvider: CredentialProvider = {
    val made = standIn(classOf[CredentialProvider])(PartialFunction.empty)
    val field = classOf[CredentialProvider].getField("credentialCache")
    field.setAccessible(true)
    field.set(made, new CredentialCache {
      override def cache[C](mechanism: String, of: Class[C]): CredentialCache.Cache[C] = new CredentialCache.Cache[C](of) {
        override def get(user: String): C = {
          val stored = new AdminZkClient(zookeeper).fetchEntityConfig("users", Sanitizer.sanitize(user)).getProperty(mechanism)
          if (stored != null) Thread.sleep(PropagationMs)
          Option(stored).map(ScramCredentialUtils.credentialFromString).orNull.asInstanceOf[C]
        }
      }
    })
    made
  }
}

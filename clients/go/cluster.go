package kafkacluster

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// ClusterSettings say which cluster to start; what is zero stands for the default.
type ClusterSettings struct {
	Brokers   int               `json:"brokers,omitempty"`
	ZooKeeper string            `json:"zookeeper,omitempty"`
	Listeners string            `json:"listeners,omitempty"`
	Configs   map[string]string `json:"configs,omitempty"`
	// Disks are brokers whose data is on a disk of its own, and its size in MB: needs root.
	Disks map[int]int `json:"disks,omitempty"`
}

// ClusterState is a cluster as it was when the server answered.
type ClusterState struct {
	ID               int               `json:"cluster"`
	State            string            `json:"state"`
	BootstrapServers string            `json:"bootstrap_servers"`
	ClientConfig     map[string]string `json:"client_config"`
	ZooKeeperConnect string            `json:"zookeeper_connect"`
	Directory        string            `json:"directory"`
	BrokerIDs        []int             `json:"broker_ids"`
	LiveBrokers      []int             `json:"live_brokers"`
	ControllerID     *int              `json:"controller_id"`
	ControllerEpoch  int               `json:"controller_epoch"`
}

// Cluster is a cluster in a test's hands; its verbs are those of the kit (docs/testing.md).  Its embedded state is that
// of its start; addresses do not change.  A timeout of 0 is the default: 30 s.
type Cluster struct {
	ClusterState
	server *Server
}

func at[T any](ctx context.Context, c *Cluster, method, path string, fields any) (T, error) {
	return call[T](ctx, c.server, method, fmt.Sprintf("/clusters/%d", c.ID)+path, fields)
}

func do(ctx context.Context, c *Cluster, method, path string, fields any) error {
	_, err := at[nothing](ctx, c, method, path, fields)
	return err
}

type fields map[string]any

// with adds a timeout, and leaves out what is zero.
func (f fields) with(timeout time.Duration) fields {
	if timeout > 0 {
		f["timeout_s"] = timeout.Seconds()
	}
	return f
}

// Describe says how the cluster is now.
func (c *Cluster) Describe(ctx context.Context) (ClusterState, error) {
	return at[ClusterState](ctx, c, "GET", "", nil)
}

// Close ends all processes of the cluster; it returns the folder if the files are kept.
func (c *Cluster) Close(ctx context.Context, keepFiles bool) (string, error) {
	found, err := at[struct {
		Directory string `json:"directory"`
	}](ctx, c, "DELETE", "", url.Values{"keep_files": {strconv.FormatBool(keepFiles)}})
	return found.Directory, err
}

// BrokerState is a broker as it was when the server answered.
type BrokerState struct {
	BrokerID      int    `json:"broker_id"`
	IsAlive       bool   `json:"is_alive"`
	PID           *int   `json:"pid"`
	BrokerEpoch   int64  `json:"broker_epoch"`
	LogsDirectory string `json:"logs_directory"`
}

// Broker says how a broker is now.
func (c *Cluster) Broker(ctx context.Context, broker int) (BrokerState, error) {
	return at[BrokerState](ctx, c, "GET", fmt.Sprintf("/brokers/%d", broker), nil)
}

// Start starts a broker again, and waits until it serves.
func (c *Cluster) Start(ctx context.Context, broker int) error {
	return do(ctx, c, "POST", fmt.Sprintf("/brokers/%d/start", broker), nil)
}

// StartWithoutWaiting starts a broker again, and returns at once.
func (c *Cluster) StartWithoutWaiting(ctx context.Context, broker int) error {
	return do(ctx, c, "POST", fmt.Sprintf("/brokers/%d/start", broker), fields{"wait": false})
}

// Stop stops a broker by controlled shutdown, and waits until its process has ended.
func (c *Cluster) Stop(ctx context.Context, broker int) error {
	return do(ctx, c, "POST", fmt.Sprintf("/brokers/%d/stop", broker), nil)
}

// StopWithoutWaiting begins a controlled shutdown; WaitStopped waits for its end.
func (c *Cluster) StopWithoutWaiting(ctx context.Context, broker int) error {
	return do(ctx, c, "POST", fmt.Sprintf("/brokers/%d/stop", broker), fields{"wait": false})
}

// Kill ends a broker as a power cut does; its session expires later, or by ExpireSession.
func (c *Cluster) Kill(ctx context.Context, broker int) error {
	return do(ctx, c, "POST", fmt.Sprintf("/brokers/%d/kill", broker), nil)
}

// Pause freezes a broker's process.
func (c *Cluster) Pause(ctx context.Context, broker int) error {
	return do(ctx, c, "POST", fmt.Sprintf("/brokers/%d/pause", broker), nil)
}

// Resume lets a paused broker go on.
func (c *Cluster) Resume(ctx context.Context, broker int) error {
	return do(ctx, c, "POST", fmt.Sprintf("/brokers/%d/resume", broker), nil)
}

// Bounce stops a broker (clean) or kills it, and starts it.
func (c *Cluster) Bounce(ctx context.Context, broker int, clean bool) error {
	return do(ctx, c, "POST", fmt.Sprintf("/brokers/%d/bounce", broker), fields{"clean": clean})
}

// ExpireSession has ZooKeeper end a broker's session.
func (c *Cluster) ExpireSession(ctx context.Context, broker int) error {
	return do(ctx, c, "POST", fmt.Sprintf("/brokers/%d/expire_session", broker), nil)
}

// DiskFull leaves no byte to a broker, on its own disk or at all, until FreeDisk.
func (c *Cluster) DiskFull(ctx context.Context, broker int) error {
	return do(ctx, c, "POST", fmt.Sprintf("/brokers/%d/disk_full", broker), nil)
}

// FreeDisk gives back the room that DiskFull has taken.
func (c *Cluster) FreeDisk(ctx context.Context, broker int) error {
	return do(ctx, c, "POST", fmt.Sprintf("/brokers/%d/free_disk", broker), nil)
}

// MakeDiskReadOnly lets every write to a broker's own disk fail.
func (c *Cluster) MakeDiskReadOnly(ctx context.Context, broker int) error {
	return do(ctx, c, "POST", fmt.Sprintf("/brokers/%d/make_disk_read_only", broker), nil)
}

// LosePageCache kills a broker, and its own disk loses what no fsync has brought there.
func (c *Cluster) LosePageCache(ctx context.Context, broker int) error {
	return do(ctx, c, "POST", fmt.Sprintf("/brokers/%d/lose_page_cache", broker), nil)
}

// MendDisk makes the disk of a broker that has ended writable again.
func (c *Cluster) MendDisk(ctx context.Context, broker int) error {
	return do(ctx, c, "POST", fmt.Sprintf("/brokers/%d/mend_disk", broker), nil)
}

// SetClock lets a broker's wall clock jump: so far ahead of the machine's, or behind.
func (c *Cluster) SetClock(ctx context.Context, broker int, ahead time.Duration) error {
	return do(ctx, c, "POST", fmt.Sprintf("/brokers/%d/set_clock", broker), fields{"ahead_ms": ahead.Milliseconds()})
}

// WaitStopped waits until a broker's process has ended.
func (c *Cluster) WaitStopped(ctx context.Context, broker int, timeout time.Duration) error {
	return do(ctx, c, "POST", fmt.Sprintf("/brokers/%d/wait_stopped", broker), fields{}.with(timeout))
}

// WaitUnregistered waits until a broker's registration is gone.
func (c *Cluster) WaitUnregistered(ctx context.Context, broker int, timeout time.Duration) error {
	return do(ctx, c, "POST", fmt.Sprintf("/brokers/%d/wait_unregistered", broker), fields{}.with(timeout))
}

// LoseZooKeeperResponse has ZooKeeper do what a broker asks next ("create", "delete", "set", "multi"), and loses the answer.
func (c *Cluster) LoseZooKeeperResponse(ctx context.Context, broker int, operation string, times int) error {
	return do(ctx, c, "POST", fmt.Sprintf("/brokers/%d/lose_zookeeper_response", broker), fields{"operation": operation, "times": times})
}

// WaitRegistered waits until these brokers (none: all) are registered after an epoch (-1: any); the highest broker epoch.
func (c *Cluster) WaitRegistered(ctx context.Context, brokers []int, afterEpoch int64, timeout time.Duration) (int64, error) {
	if brokers == nil {
		brokers = []int{}
	}
	found, err := at[struct {
		BrokerEpoch int64 `json:"broker_epoch"`
	}](ctx, c, "POST", "/wait_registered", fields{"broker_ids": brokers, "after_epoch": afterEpoch}.with(timeout))
	return found.BrokerEpoch, err
}

// Controller is a broker that was elected.
type Controller struct {
	ID    int `json:"controller_id"`
	Epoch int `json:"controller_epoch"`
}

// WaitController waits for a controller of an epoch after this one.
func (c *Cluster) WaitController(ctx context.Context, afterEpoch int, timeout time.Duration) (Controller, error) {
	return at[Controller](ctx, c, "POST", "/wait_controller", fields{"after_epoch": afterEpoch}.with(timeout))
}

// DeleteController deletes /controller: its owner resigns, and all others run for it.
func (c *Cluster) DeleteController(ctx context.Context) error {
	return do(ctx, c, "POST", "/delete_controller", nil)
}

// ElectController deletes /controller, and waits for the broker that is elected then.
func (c *Cluster) ElectController(ctx context.Context, timeout time.Duration) (Controller, error) {
	return at[Controller](ctx, c, "POST", "/elect_controller", fields{}.with(timeout))
}

// Hold is a step of the controller that is held.
type Hold struct {
	ID      int `json:"hold"`
	cluster *Cluster
}

// Reached is a controller that stands at a step.
type Reached struct {
	BrokerID int    `json:"broker_id"`
	Name     string `json:"name"`
	Detail   string `json:"detail"`
}

// Hold lets every controller that gets to this step wait (broker 0: any).
func (c *Cluster) Hold(ctx context.Context, name string, broker int) (*Hold, error) {
	wanted := fields{"name": name}
	if broker > 0 {
		wanted["broker"] = broker
	}
	found, err := at[Hold](ctx, c, "POST", "/holds", wanted)
	found.cluster = c
	return &found, err
}

// WaitReached waits until a controller stands there.
func (h *Hold) WaitReached(ctx context.Context, timeout time.Duration) (Reached, error) {
	return at[Reached](ctx, h.cluster, "POST", fmt.Sprintf("/holds/%d/wait_reached", h.ID), fields{}.with(timeout))
}

// Release lets it go on, and holds there no longer.
func (h *Hold) Release(ctx context.Context) error {
	return do(ctx, h.cluster, "DELETE", fmt.Sprintf("/holds/%d", h.ID), nil)
}

// TopicSettings say which topic to create; Replicas places its partitions and replaces the two numbers.
type TopicSettings struct {
	Partitions        int               `json:"partitions,omitempty"`
	ReplicationFactor int               `json:"replication_factor,omitempty"`
	Configs           map[string]string `json:"configs,omitempty"`
	Replicas          [][]int           `json:"replicas,omitempty"`
}

// CreateTopic creates a topic, which has leaders then.
func (c *Cluster) CreateTopic(ctx context.Context, name string, settings TopicSettings) error {
	return do(ctx, c, "POST", "/topics", struct {
		Name string `json:"name"`
		TopicSettings
	}{name, settings})
}

// PartitionState is a partition's state as ZooKeeper has it.
type PartitionState struct {
	Leader          int   `json:"leader"`
	LeaderEpoch     int   `json:"leader_epoch"`
	ISR             []int `json:"isr"`
	ControllerEpoch int   `json:"controller_epoch"`
}

// Partition says who leads and who is in sync now.
func (c *Cluster) Partition(ctx context.Context, topic string, partition int) (PartitionState, error) {
	return at[PartitionState](ctx, c, "GET", fmt.Sprintf("/topics/%s/partitions/%d", url.PathEscape(topic), partition), nil)
}

// WaitLeader waits for a leader, among these brokers if there are any.
func (c *Cluster) WaitLeader(ctx context.Context, topic string, partition int, among []int, timeout time.Duration) (int, error) {
	wanted := fields{}.with(timeout)
	if len(among) > 0 {
		wanted["among"] = among
	}
	found, err := at[PartitionState](ctx, c, "POST", fmt.Sprintf("/topics/%s/partitions/%d/wait_leader", url.PathEscape(topic), partition), wanted)
	return found.Leader, err
}

// WaitISR waits until the ISR is exactly these brokers (none: all of the cluster).
func (c *Cluster) WaitISR(ctx context.Context, topic string, partition int, brokers []int, timeout time.Duration) ([]int, error) {
	wanted := fields{}.with(timeout)
	if len(brokers) > 0 {
		wanted["brokers"] = brokers
	}
	found, err := at[PartitionState](ctx, c, "POST", fmt.Sprintf("/topics/%s/partitions/%d/wait_isr", url.PathEscape(topic), partition), wanted)
	return found.ISR, err
}

// Peer is one end of a connection: Clients, ZooKeeper, or a broker by BrokerPeer.
type Peer struct{ value any }

// The ends that are no brokers.
var (
	Clients   = Peer{"clients"}
	ZooKeeper = Peer{"zookeeper"}
)

// BrokerPeer is a broker as an end of a connection.
func BrokerPeer(broker int) Peer { return Peer{broker} }

// CutOptions say how the network is cut.
type CutOptions struct{ OneWay, Silent bool }

// Cut cuts two from each other until Heal.
func (c *Cluster) Cut(ctx context.Context, a, b Peer, options CutOptions) error {
	return do(ctx, c, "POST", "/cut", fields{"a": a.value, "b": b.value, "one_way": options.OneWay, "silent": options.Silent})
}

// Heal ends all cuts, faults and narrowed versions.
func (c *Cluster) Heal(ctx context.Context) error {
	return do(ctx, c, "POST", "/heal", nil)
}

// Requests say to which requests a fault happens, and how often; what is zero means any, and the default of the verb.
type Requests struct {
	Broker   int
	Sender   Peer
	ClientID string
	Topic    string
	// Times is how often at most: once by default for Drop and Fail, without end for Delay.
	Times int
}

func (r Requests) fields(api string) fields {
	found := fields{"api": api}
	if r.Broker > 0 {
		found["broker"] = r.Broker
	}
	if r.Sender.value != nil {
		found["sender"] = r.Sender.value
	}
	if r.ClientID != "" {
		found["client_id"] = r.ClientID
	}
	if r.Topic != "" {
		found["topic"] = r.Topic
	}
	if r.Times > 0 {
		found["times"] = r.Times
	}
	return found
}

// FaultState is a fault, and how often it has happened.
type FaultState struct {
	ID     int    `json:"fault"`
	Action string `json:"action"`
	API    string `json:"api"`
	Count  int    `json:"count"`
}

// Fault happens to requests until Remove or Heal.
type Fault struct {
	ID      int `json:"fault"`
	cluster *Cluster
}

func (c *Cluster) arranged(found Fault, err error) (*Fault, error) {
	found.cluster = c
	return &found, err
}

// Delay lets requests of an API reach the broker later.
func (c *Cluster) Delay(ctx context.Context, api string, delay time.Duration, which Requests) (*Fault, error) {
	wanted := which.fields(api)
	wanted["delay_ms"] = delay.Milliseconds()
	return c.arranged(at[Fault](ctx, c, "POST", "/delay", wanted))
}

// Drop breaks the connection before the broker has the request.
func (c *Cluster) Drop(ctx context.Context, api string, which Requests) (*Fault, error) {
	return c.arranged(at[Fault](ctx, c, "POST", "/drop", which.fields(api)))
}

// DropAnswer lets the broker do it, and loses its answer.
func (c *Cluster) DropAnswer(ctx context.Context, api string, which Requests) (*Fault, error) {
	wanted := which.fields(api)
	wanted["answer"] = true
	return c.arranged(at[Fault](ctx, c, "POST", "/drop", wanted))
}

// Fail answers requests with an error, as in "NOT_LEADER_OR_FOLLOWER"; the broker never has them.
func (c *Cluster) Fail(ctx context.Context, api, errorName string, which Requests) (*Fault, error) {
	wanted := which.fields(api)
	wanted["error"] = errorName
	return c.arranged(at[Fault](ctx, c, "POST", "/fail", wanted))
}

// Faults are all faults that were not removed.
func (c *Cluster) Faults(ctx context.Context) ([]FaultState, error) {
	found, err := at[struct {
		Faults []FaultState `json:"faults"`
	}](ctx, c, "GET", "/faults", nil)
	return found.Faults, err
}

// Count says how often it has happened.
func (f *Fault) Count(ctx context.Context) (int, error) {
	found, err := at[FaultState](ctx, f.cluster, "GET", fmt.Sprintf("/faults/%d", f.ID), nil)
	return found.Count, err
}

// Remove ends it; how often it has happened.
func (f *Fault) Remove(ctx context.Context) (int, error) {
	found, err := at[FaultState](ctx, f.cluster, "DELETE", fmt.Sprintf("/faults/%d", f.ID), nil)
	return found.Count, err
}

// OfferVersions has brokers (0: all) offer only these versions of an API to new connections.
func (c *Cluster) OfferVersions(ctx context.Context, api string, least, most, broker int) error {
	wanted := fields{"api": api, "least": least, "most": most}
	if broker > 0 {
		wanted["broker"] = broker
	}
	return do(ctx, c, "POST", "/offer_versions", wanted)
}

// VersionsUsed are the versions in which clients have asked for an API since the last Heal.
func (c *Cluster) VersionsUsed(ctx context.Context, api string) ([]int, error) {
	found, err := at[struct {
		Versions []int `json:"versions"`
	}](ctx, c, "GET", "/versions_used", url.Values{"api": {api}})
	return found.Versions, err
}

// Znode is a znode's data; Exists is false where there is none.
type Znode struct {
	Path    string
	Exists  bool
	Data    []byte
	Version int
}

type znodeAnswer struct {
	Path    string  `json:"path"`
	Base64  *string `json:"base64"`
	Version *int    `json:"version"`
}

func (answer znodeAnswer) znode(err error) (Znode, error) {
	if err != nil || answer.Base64 == nil {
		return Znode{Path: answer.Path}, err
	}
	data, err := base64.StdEncoding.DecodeString(*answer.Base64)
	found := Znode{Path: answer.Path, Exists: true, Data: data}
	if answer.Version != nil {
		found.Version = *answer.Version
	}
	return found, err
}

func dataFields(path string, data []byte) fields {
	return fields{"path": path, "base64": base64.StdEncoding.EncodeToString(data)}
}

// Znode reads a znode below the cluster's chroot.
func (c *Cluster) Znode(ctx context.Context, path string) (Znode, error) {
	answer, err := at[znodeAnswer](ctx, c, "GET", "/znode", url.Values{"path": {path}})
	return answer.znode(err)
}

// SetZnode overwrites a znode, and creates it if it is missing.
func (c *Cluster) SetZnode(ctx context.Context, path string, data []byte) (Znode, error) {
	answer, err := at[znodeAnswer](ctx, c, "PUT", "/znode", dataFields(path, data))
	return answer.znode(err)
}

// DeleteZnode deletes a znode without children; whether it was there.
func (c *Cluster) DeleteZnode(ctx context.Context, path string) (bool, error) {
	found, err := at[struct {
		Deleted bool `json:"deleted"`
	}](ctx, c, "DELETE", "/znode", url.Values{"path": {path}})
	return found.Deleted, err
}

// CorruptZnode overwrites a znode with what no reader understands; what was there.
func (c *Cluster) CorruptZnode(ctx context.Context, path string) (Znode, error) {
	answer, err := at[znodeAnswer](ctx, c, "POST", "/znode/corrupt", fields{"path": path})
	return answer.znode(err)
}

// Watch is the state of a znode at a moment.
type Watch struct {
	ID      int `json:"watch"`
	cluster *Cluster
}

// Watch notes how a znode is now.
func (c *Cluster) Watch(ctx context.Context, path string) (*Watch, error) {
	found, err := at[Watch](ctx, c, "POST", "/watches", fields{"path": path})
	found.cluster = c
	return &found, err
}

// WaitChange waits for the next change; the znode then.
func (w *Watch) WaitChange(ctx context.Context, timeout time.Duration) (Znode, error) {
	answer, err := at[znodeAnswer](ctx, w.cluster, "POST", fmt.Sprintf("/watches/%d/wait_change", w.ID), fields{}.with(timeout))
	return answer.znode(err)
}

// Remove forgets the watch.
func (w *Watch) Remove(ctx context.Context) error {
	return do(ctx, w.cluster, "DELETE", fmt.Sprintf("/watches/%d", w.ID), nil)
}

// Ledger writes records with acks=all, and knows which were acknowledged.
type Ledger struct {
	ID      int `json:"ledger"`
	cluster *Cluster
}

// LedgerState is a ledger as it was when the server answered.
type LedgerState struct {
	ID           int    `json:"ledger"`
	Topic        string `json:"topic"`
	Partition    int    `json:"partition"`
	IsProducing  bool   `json:"is_producing"`
	Acknowledged int    `json:"acknowledged"`
}

// LedgerRecord is a record of a ledger.
type LedgerRecord struct {
	Offset int64  `json:"offset"`
	Value  string `json:"value"`
}

type ledgerRecords struct {
	Records []LedgerRecord `json:"records"`
}

// Ledger begins a ledger of a partition.
func (c *Cluster) Ledger(ctx context.Context, topic string, partition int) (*Ledger, error) {
	found, err := at[Ledger](ctx, c, "POST", "/ledgers", fields{"topic": topic, "partition": partition})
	found.cluster = c
	return &found, err
}

// Describe says how many records were acknowledged.
func (l *Ledger) Describe(ctx context.Context) (LedgerState, error) {
	return at[LedgerState](ctx, l.cluster, "GET", fmt.Sprintf("/ledgers/%d", l.ID), nil)
}

// Produce writes records; their offsets, when all are acknowledged.
func (l *Ledger) Produce(ctx context.Context, count int, timeout time.Duration) ([]int64, error) {
	found, err := at[struct {
		Offsets []int64 `json:"offsets"`
	}](ctx, l.cluster, "POST", fmt.Sprintf("/ledgers/%d/produce", l.ID), fields{"count": count}.with(timeout))
	return found.Offsets, err
}

// StartProducing writes one record after the other until StopProducing.
func (l *Ledger) StartProducing(ctx context.Context) error {
	_, err := at[LedgerState](ctx, l.cluster, "POST", fmt.Sprintf("/ledgers/%d/start_producing", l.ID), nil)
	return err
}

// StopProducing ends what StartProducing began; how the ledger is then.
func (l *Ledger) StopProducing(ctx context.Context) (LedgerState, error) {
	return at[LedgerState](ctx, l.cluster, "POST", fmt.Sprintf("/ledgers/%d/stop_producing", l.ID), nil)
}

// Acknowledged are the records that were acknowledged.
func (l *Ledger) Acknowledged(ctx context.Context) ([]LedgerRecord, error) {
	found, err := at[ledgerRecords](ctx, l.cluster, "GET", fmt.Sprintf("/ledgers/%d/acknowledged", l.ID), nil)
	return found.Records, err
}

// Read is what consumers can read now.
func (l *Ledger) Read(ctx context.Context, timeout time.Duration) ([]LedgerRecord, error) {
	found, err := at[ledgerRecords](ctx, l.cluster, "POST", fmt.Sprintf("/ledgers/%d/read", l.ID), fields{}.with(timeout))
	return found.Records, err
}

// Lost are acknowledged records that are not at their offset any more.
func (l *Ledger) Lost(ctx context.Context, timeout time.Duration) ([]LedgerRecord, error) {
	found, err := at[ledgerRecords](ctx, l.cluster, "POST", fmt.Sprintf("/ledgers/%d/lost", l.ID), fields{}.with(timeout))
	return found.Records, err
}

type check struct {
	Holds  bool   `json:"holds"`
	Reason string `json:"reason"`
}

func (found check) failure(err error) error {
	if err == nil && !found.Holds {
		return errors.New(found.Reason)
	}
	return err
}

// NoAcknowledgedRecordLost is nil if each acknowledged record of the ledgers (none: all) is there.
func (c *Cluster) NoAcknowledgedRecordLost(ctx context.Context, ledgers ...*Ledger) error {
	numbers := []int{}
	for _, each := range ledgers {
		numbers = append(numbers, each.ID)
	}
	found, err := at[check](ctx, c, "POST", "/checks/no_acknowledged_record_lost", fields{"ledgers": numbers})
	return found.failure(err)
}

// EpochsMonotonic is nil if no epoch fell in a broker's log, and none had two owners.
func (c *Cluster) EpochsMonotonic(ctx context.Context) error {
	found, err := at[check](ctx, c, "POST", "/checks/epochs_monotonic", nil)
	return found.failure(err)
}

// StateChanges are the newest so many state changes of all brokers.
func (c *Cluster) StateChanges(ctx context.Context, last int) ([]map[string]any, error) {
	found, err := at[struct {
		StateChanges []map[string]any `json:"state_changes"`
	}](ctx, c, "GET", "/state_changes", url.Values{"last": {strconv.Itoa(last)}})
	return found.StateChanges, err
}

// JournalEntry is a step of the test.
type JournalEntry struct {
	AtMS int64  `json:"at_ms"`
	Text string `json:"text"`
}

// Journal is what was done to the cluster, the newest so many steps.
func (c *Cluster) Journal(ctx context.Context, last int) ([]JournalEntry, error) {
	found, err := at[struct {
		Journal []JournalEntry `json:"journal"`
	}](ctx, c, "GET", "/journal", url.Values{"last": {strconv.Itoa(last)}})
	return found.Journal, err
}

// Artefacts are files that say what happened.
type Artefacts struct {
	Directory string   `json:"directory"`
	Files     []string `json:"files"`
}

// WriteArtefacts writes what happened into the cluster's folder, beside all logs.
func (c *Cluster) WriteArtefacts(ctx context.Context) (Artefacts, error) {
	return at[Artefacts](ctx, c, "POST", "/artefacts", nil)
}

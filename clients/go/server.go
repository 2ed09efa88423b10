// Package kafkacluster brings real Kafka clusters into tests of Go, by zkctl serve.
//
// Start starts zkctl serve as a child: the program that the variable ZKCTL names, or zkctl on the PATH.  The child and
// its clusters end with Close, and with this process, however it ends: its stdin is a pipe that we hold.  In a test,
// StartCluster does all of it.
//
// The package needs the standard library alone.
package kafkacluster

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

const (
	startTimeout = 30 * time.Second
	endTimeout   = 20 * time.Second
	mostStderr   = 4000
	mostAnswer   = 256 << 20
)

// Error is what the server refused, or what did not come in time (Code "not_in_time").
type Error struct {
	Status  int
	Code    string `json:"error"`
	Message string `json:"message"`
	Field   string `json:"field"`
}

func (e *Error) Error() string {
	if e.Field != "" {
		return fmt.Sprintf("%s (%s): %s", e.Code, e.Field, e.Message)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

// Server is a zkctl serve that runs.
type Server struct {
	URL     string
	token   string
	process *exec.Cmd
	stdin   io.Closer
	ended   chan struct{}
}

// Options say how zkctl serve is started; the zero value will do.
type Options struct {
	// Command is the program and its first arguments; by default $ZKCTL, else zkctl.
	Command []string
	// Artefacts is the folder for the clusters' files; by default a temporary one.
	Artefacts string
}

// Start starts zkctl serve.
func Start(options Options) (*Server, error) {
	command := options.Command
	if len(command) == 0 {
		command = []string{"zkctl"}
		if named := os.Getenv("ZKCTL"); named != "" {
			command[0] = named
		}
	}
	secret := make([]byte, 16)
	if _, err := rand.Read(secret); err != nil {
		return nil, err
	}
	arguments := append(append([]string{}, command[1:]...), "serve", "-o", "jsonl")
	if options.Artefacts != "" {
		arguments = append(arguments, "--artefacts", options.Artefacts)
	}
	said := &lastBytes{}
	server := &Server{token: hex.EncodeToString(secret), ended: make(chan struct{})}
	server.process = exec.Command(command[0], arguments...)
	server.process.Env = append(os.Environ(), "ZKCTL_SERVE_TOKEN="+server.token)
	server.process.Stderr = said
	var err error
	if server.stdin, err = server.process.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := server.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err = server.process.Start(); err != nil {
		return nil, fmt.Errorf("zkctl serve did not start: %w", err)
	}
	first := make(chan []byte, 1)
	go func() {
		line, _ := bufio.NewReader(stdout).ReadBytes('\n')
		first <- line
		_, _ = io.Copy(io.Discard, stdout)
		_ = server.process.Wait()
		close(server.ended)
	}()
	var announced struct {
		URL string `json:"url"`
	}
	select {
	case line := <-first:
		if err = json.Unmarshal(line, &announced); err == nil && announced.URL != "" {
			server.URL = announced.URL
			return server, nil
		}
		err = fmt.Errorf("it said %q", line)
	case <-time.After(startTimeout):
		err = fmt.Errorf("nothing within %s", startTimeout)
	}
	_ = server.Close()
	return nil, fmt.Errorf("zkctl serve did not start: %w; %s", err, said)
}

// Close ends the server and all its clusters.
func (s *Server) Close() error {
	if s.process == nil {
		return nil
	}
	_ = s.stdin.Close()
	select {
	case <-s.ended:
		return nil
	case <-time.After(endTimeout):
		_ = s.process.Process.Kill()
		<-s.ended
		return fmt.Errorf("zkctl serve did not end within %s and was killed", endTimeout)
	}
}

// StartCluster starts a server with one cluster for a test.  Both end with the test; if it failed, its log says where
// the cluster's files are.
func StartCluster(t testing.TB, settings ClusterSettings) *Cluster {
	t.Helper()
	server, err := Start(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	cluster, err := server.CreateCluster(context.Background(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		if _, err := cluster.WriteArtefacts(context.Background()); err == nil {
			if kept, err := cluster.Close(context.Background(), true); err == nil {
				t.Logf("logs, state changes and journal of the cluster: %s", kept)
			}
		}
	})
	return cluster
}

// ServerState is the server itself.
type ServerState struct {
	Version      string `json:"version"`
	Clusters     int    `json:"clusters"`
	MostClusters int    `json:"most_clusters"`
}

// HoldPoint is a step at which a controller can be held.
type HoldPoint struct {
	Name    string `json:"name"`
	Meaning string `json:"meaning"`
}

// Describe says what serves.
func (s *Server) Describe(ctx context.Context) (ServerState, error) {
	return call[ServerState](ctx, s, "GET", "/", nil)
}

// OpenAPI is the server's own document.
func (s *Server) OpenAPI(ctx context.Context) (map[string]any, error) {
	return call[map[string]any](ctx, s, "GET", "/openapi.json", nil)
}

// HoldPoints are the steps at which a controller can be held.
func (s *Server) HoldPoints(ctx context.Context) ([]HoldPoint, error) {
	found, err := call[struct {
		HoldPoints []HoldPoint `json:"hold_points"`
	}](ctx, s, "GET", "/hold_points", nil)
	return found.HoldPoints, err
}

// Clusters are the numbers of all clusters.
func (s *Server) Clusters(ctx context.Context) ([]int, error) {
	found, err := call[struct {
		Clusters []int `json:"clusters"`
	}](ctx, s, "GET", "/clusters", nil)
	return found.Clusters, err
}

// CreateCluster starts a cluster, and returns when its brokers serve.
func (s *Server) CreateCluster(ctx context.Context, settings ClusterSettings) (*Cluster, error) {
	state, err := call[ClusterState](ctx, s, "POST", "/clusters", settings)
	if err != nil {
		return nil, err
	}
	return &Cluster{server: s, ClusterState: state}, nil
}

// nothing is the answer of a verb that has none.
type nothing struct{}

// call sends one request; fields are a body, or url.Values behind a question mark.
func call[T any](ctx context.Context, s *Server, method, path string, fields any) (T, error) {
	var answer T
	var body io.Reader
	if query, isQuery := fields.(url.Values); isQuery {
		path += "?" + query.Encode()
	} else if fields != nil {
		encoded, err := json.Marshal(fields)
		if err != nil {
			return answer, err
		}
		body = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, s.URL+path, body)
	if err != nil {
		return answer, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	if err != nil {
		return answer, err
	}
	if response.StatusCode >= 300 {
		refused := &Error{Status: response.StatusCode}
		if err := json.Unmarshal(data, refused); err != nil {
			return answer, fmt.Errorf("%s %s: %s: %w", method, path, response.Status, err)
		}
		return answer, refused
	}
	if len(data) == 0 {
		return answer, nil
	}
	return answer, json.Unmarshal(data, &answer)
}

// lastBytes keeps the end of what a process says.
type lastBytes struct {
	lock sync.Mutex
	data []byte
}

func (l *lastBytes) Write(data []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.data = append(l.data, data...)
	l.data = l.data[max(0, len(l.data)-mostStderr):]
	return len(data), nil
}

func (l *lastBytes) String() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return string(l.data)
}

// Package process builds and runs the suites' programs as processes of their own,
// kills them, and reads what they use from /proc.
package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// PathStats answers GET with the Stats of a manager; "?gc=1" collects garbage
// first.
const PathStats = "/debug/stats"

// Stats is what a process knows of itself.
type Stats struct {
	Goroutines int    `json:"goroutines"`
	HeapInUse  uint64 `json:"heapInUse"`
	Mallocs    uint64 `json:"mallocs"`
}

// Build builds a package of this module into a file of dir and returns its path.
func Build(ctx context.Context, dir, pkg string) (string, error) {
	path := filepath.Join(dir, filepath.Base(pkg))
	command := exec.CommandContext(ctx, "go", "build", "-o", path, pkg)
	if text, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", pkg, err, text)
	}
	return path, nil
}

// Process is a program that runs, and prints a URL as its first line.
type Process struct {
	// URL is the first line of its output.
	URL string
	// Started is when it was started.
	Started time.Time

	command *exec.Cmd
	log     *os.File
	ended   chan struct{}

	mu    sync.Mutex
	lines []string
}

// Start starts a program whose errors go to the file at log, and waits for its
// first line.
func Start(ctx context.Context, log, path string, args ...string) (*Process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	p := &Process{command: exec.Command(path, args...), log: file, ended: make(chan struct{}), Started: time.Now()}
	p.command.Stderr = file
	// A driver that dies takes its processes along.
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the output: %w", err), file.Close())
	}
	if err := p.command.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", path, err), file.Close())
	}
	first := make(chan string, 1)
	go p.read(out, first)
	select {
	case p.URL = <-first:
		return p, nil
	case <-p.ended:
		return nil, fmt.Errorf("start %s: it ended at once; see %s", path, log)
	case <-ctx.Done():
		p.Kill()
		return nil, ctx.Err()
	}
}

// read collects the output until the process has ended.
func (p *Process) read(out io.Reader, first chan<- string) {
	defer close(p.ended)
	scanner := bufio.NewScanner(out)
	if scanner.Scan() {
		first <- scanner.Text()
	}
	for scanner.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, scanner.Text())
		p.mu.Unlock()
	}
	_ = p.command.Wait()
	_ = p.log.Close()
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Lines is its output after the first line.
func (p *Process) Lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.lines...)
}

// Kill ends the process with SIGKILL and waits for its end.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

// Stop ends the process with SIGTERM, after some time with SIGKILL, and waits for
// its end.
func (p *Process) Stop() {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(10 * time.Second)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		p.Kill()
	}
}

// Stats asks the process for its statistics.
func (p *Process) Stats(ctx context.Context, collect bool) (Stats, error) {
	path := PathStats
	if collect {
		path += "?gc=1"
	}
	var stats Stats
	text, err := p.Get(ctx, path)
	if err != nil {
		return stats, err
	}
	if err := json.Unmarshal(text, &stats); err != nil {
		return stats, fmt.Errorf("decode statistics: %w", err)
	}
	return stats, nil
}

// Get reads a path of the process's debug server.
func (p *Process) Get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the process: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("read the process's answer: %w", err)
	}
	return text, nil
}

// Save writes what Get reads to a file.
func (p *Process) Save(ctx context.Context, path, file string) error {
	text, err := p.Get(ctx, path)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// Usage is what the kernel says a process uses.
type Usage struct {
	// Resident and PeakResident are in bytes.
	Resident, PeakResident int64
	// CPU is the processor time used since the start.
	CPU time.Duration
}

// clockTicks is USER_HZ, the unit of /proc/<pid>/stat; 100 on every Linux.
const clockTicks = 100

// Usage reads /proc.
func (p *Process) Usage() (Usage, error) { return UsageOf(p.command.Process.Pid) }

// UsageOf is the Usage of a process that another package has started.
func UsageOf(pid int) (Usage, error) {
	var usage Usage
	folder := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(folder, "status"))
	if err != nil {
		return usage, fmt.Errorf("read the process's status: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		value, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "VmRSS:":
			usage.Resident = value << 10
		case "VmHWM:":
			usage.PeakResident = value << 10
		}
	}
	stat, err := os.ReadFile(filepath.Join(folder, "stat"))
	if err != nil {
		return usage, fmt.Errorf("read the process's times: %w", err)
	}
	// The fields after the name, which is in parentheses: utime is the 12th of them.
	const utime, stime = 11, 12
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) <= stime {
		return usage, errors.New("read the process's times: unknown format")
	}
	user, _ := strconv.ParseInt(fields[utime], 10, 64)
	system, _ := strconv.ParseInt(fields[stime], 10, 64)
	usage.CPU = time.Duration(user+system) * time.Second / clockTicks
	return usage, nil
}

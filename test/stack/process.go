package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// process is a child of the stack. Its log goes to a file. done is closed when it
// has ended, with err.
type process struct {
	name    string
	command *exec.Cmd
	log     string
	done    chan struct{}
	err     error
}

func (s *Stack) run(name, binary string, arguments ...string) error {
	path := filepath.Join(s.Dir, name+".log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(s.Binary(binary), arguments...) // It is ended by stop, in order and in time.
	command.Stdout, command.Stderr = log, log
	// A driver that dies takes its children along.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, command: command, log: path, done: make(chan struct{})}
	go func() {
		p.err = command.Wait()
		close(p.done)
	}()
	s.processes = append(s.processes, p)
	return nil
}

func (p *process) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

const stopTimeout = 30 * time.Second

func (p *process) stop() error {
	if err := p.command.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		err := p.command.Process.Kill()
		<-p.done
		return errors.Join(fmt.Errorf("%s did not end when asked", p.name), err)
	}
}

// StopProcess ends one process: "manager", "facade" or "runtime".
func (s *Stack) StopProcess(name string) error {
	for i, p := range s.processes {
		if p.name == name {
			s.processes = append(s.processes[:i:i], s.processes[i+1:]...)
			return p.stop()
		}
	}
	return fmt.Errorf("%s does not run", name)
}

// PID is the process id of a process that runs, 0 when it does not.
func (s *Stack) PID(name string) int {
	for _, p := range s.processes {
		if p.name == name {
			return p.command.Process.Pid
		}
	}
	return 0
}

// Log is the path of a process's log.
func (s *Stack) Log(name string) string { return filepath.Join(s.Dir, name+".log") }

// PrintLogs prints the end of each process's log.
func (s *Stack) PrintLogs(to io.Writer) {
	const lines = 25
	for _, p := range s.processes {
		data, err := os.ReadFile(p.log)
		if err != nil {
			continue
		}
		all := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
		fmt.Fprintf(to, "\n--- the end of the %s's log\n%s\n", p.name, bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
	}
}

// races reports what the race detector has written into the logs.
func (s *Stack) races() error {
	var found []error
	for _, name := range []string{"manager", "facade", "runtime"} {
		data, err := os.ReadFile(s.Log(name))
		if err != nil {
			continue
		}
		if _, report, raced := bytes.Cut(data, []byte("WARNING: DATA RACE")); raced {
			found = append(found, fmt.Errorf("the %s has a data race:\n%s", name, report[:min(len(report), maxRaceReport)]))
		}
	}
	return errors.Join(found...)
}

// maxRaceReport is how much of a race's report is shown.
const maxRaceReport = 8 << 10

func freePort(ctx context.Context) (int, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(port)
}

// freePorts finds a port for each.
func freePorts(ctx context.Context, ports ...*int) error {
	for _, port := range ports {
		found, err := freePort(ctx)
		if err != nil {
			return err
		}
		*port = found
	}
	return nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

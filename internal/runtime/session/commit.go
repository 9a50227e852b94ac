package session

import (
	"encoding/binary"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
)

// maxGroup bounds how many writes share one commit.
const maxGroup = 256

// write is one change waiting for a commit. apply may run more than once, since
// a group is tried again without the member that failed.
type write struct {
	apply func(*bolt.Tx) error
	done  chan error
}

// update commits one change and returns once it is on disk.
func (s *Store) update(action string, apply func(*bolt.Tx) error) error {
	w := write{apply: apply, done: make(chan error, 1)}
	select {
	case s.writes <- w:
	case <-s.stop:
		return fmt.Errorf("%s: %w", action, ErrClosed)
	}
	if err := <-w.done; err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	return nil
}

// commitLoop is the only writer. It ends when the store is closed.
func (s *Store) commitLoop() {
	defer close(s.stopped)
	for {
		select {
		case <-s.stop:
			return
		case first := <-s.writes:
			s.commit(s.gather(first))
		}
	}
}

// gather takes the writes that are already waiting. It never waits for more, so
// a lone write is not delayed.
func (s *Store) gather(first write) []write {
	group := []write{first}
	for len(group) < maxGroup {
		select {
		case w := <-s.writes:
			group = append(group, w)
		default:
			return group
		}
	}
	return group
}

// commit applies a group in one transaction. A member that fails by itself gets
// its error and the rest is tried again without it.
func (s *Store) commit(group []write) {
	for len(group) > 0 {
		bad := -1
		err := s.db.Update(func(tx *bolt.Tx) error {
			bad = -1
			for i, w := range group {
				if err := w.apply(tx); err != nil {
					bad = i
					return err
				}
			}
			return nil
		})
		if bad >= 0 {
			group[bad].done <- err
			group = append(group[:bad:bad], group[bad+1:]...)
			continue
		}
		s.noteCommit(err)
		for _, w := range group {
			w.done <- err
		}
		return
	}
}

func (s *Store) noteCommit(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.lastWrite = time.Time{}
		return
	}
	s.lastWrite = time.Now()
}

// stamp writes a time so that byte order is time order.
func stamp(t time.Time) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(max(t.UnixNano(), 0)))
}

// stampSize is the length of a stamp.
const stampSize = 8

func readStamp(b []byte) time.Time {
	return time.Unix(0, int64(binary.BigEndian.Uint64(b[:stampSize])))
}

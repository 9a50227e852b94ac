package session

import (
	"encoding/json"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/agentruntime/operator/internal/runtimeapi"
)

// Lookup returns the session that a key led to, or "" when there is none.
func (s *Store) Lookup(key Key) (string, error) {
	var id string
	err := s.db.View(func(tx *bolt.Tx) error {
		id = ledgerID(tx, key)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("read key ledger: %w", err)
	}
	return id, nil
}

func ledgerID(tx *bolt.Tx, key Key) string {
	v := tx.Bucket(bucketLedger).Get(key[:])
	if len(v) <= stampSize {
		return ""
	}
	return string(v[stampSize:])
}

// Create stores a new session, and the ledger entry of key when key is not nil,
// in one step. When the key has led to a session before, nothing is stored and
// that session's id is returned: two creates of one key never both succeed.
func (s *Store) Create(rec Record, key *Key) (existing string, err error) {
	body, err := json.Marshal(rec)
	if err != nil {
		return "", fmt.Errorf("encode session: %w", err)
	}
	err = s.update("store session", func(tx *bolt.Tx) error {
		existing = ""
		if key != nil {
			if existing = ledgerID(tx, *key); existing != "" {
				return nil
			}
		}
		return create(tx, rec, body, key)
	})
	if err != nil {
		return "", err
	}
	return existing, nil
}

func create(tx *bolt.Tx, rec Record, body []byte, key *Key) error {
	records := tx.Bucket(bucketRecords)
	if records.Get([]byte(rec.ID)) != nil {
		return ErrExists
	}
	if err := records.Put([]byte(rec.ID), body); err != nil {
		return err
	}
	if key == nil {
		return nil
	}
	at := stamp(rec.Created)
	if err := tx.Bucket(bucketLedger).Put(key[:], append(at, rec.ID...)); err != nil {
		return err
	}
	return tx.Bucket(bucketAge).Put(append(stamp(rec.Created), key[:]...), nil)
}

// Save stores newer states of sessions, all or none. A state that does not
// supersede the stored one is left out without an error (see Supersedes), and so
// is one whose session is gone.
func (s *Store) Save(recs ...Record) error {
	bodies := make([][]byte, len(recs))
	for i, rec := range recs {
		body, err := json.Marshal(rec)
		if err != nil {
			return fmt.Errorf("encode session: %w", err)
		}
		bodies[i] = body
	}
	return s.update("store session state", func(tx *bolt.Tx) error {
		for i, rec := range recs {
			if err := save(tx, rec, bodies[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func save(tx *bolt.Tx, rec Record, body []byte) error {
	old, found, err := get(tx, rec.ID)
	if err != nil || !found || !rec.Supersedes(old) {
		return err
	}
	if err := tx.Bucket(bucketRecords).Put([]byte(rec.ID), body); err != nil {
		return err
	}
	if !rec.Status.Terminal() {
		return nil
	}
	return tx.Bucket(bucketFinished).Put(append(stamp(rec.Changed), rec.ID...), nil)
}

// Get returns a session; found is false when it is unknown or was pruned.
func (s *Store) Get(id string) (rec Record, found bool, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		rec, found, err = get(tx, id)
		return err
	})
	if err != nil {
		return Record{}, false, fmt.Errorf("read session: %w", err)
	}
	return rec, found, nil
}

func get(tx *bolt.Tx, id string) (rec Record, found bool, err error) {
	// bbolt has no empty keys, and none longer than 32 KiB.
	if id == "" || len(id) > bolt.MaxKeySize {
		return Record{}, false, nil
	}
	v := tx.Bucket(bucketRecords).Get([]byte(id))
	if v == nil {
		return Record{}, false, nil
	}
	// The bytes are valid only inside the transaction; decoding copies them.
	if err := json.Unmarshal(v, &rec); err != nil {
		return Record{}, false, fmt.Errorf("decode session %s: %w", id, err)
	}
	return rec, true, nil
}

// Recover ends what a former process left unfinished and returns how many
// sessions that were: cancelling ones become cancelled, others fail with
// BOT_RESTARTED in the stage they had reached (E.1.5). Call it once, before
// anything is created.
func (s *Store) Recover() (int, error) {
	open, err := s.unfinished()
	if err != nil || len(open) == 0 {
		return 0, err
	}
	for i := range open {
		open[i] = open[i].Restarted()
		open[i].Changed = s.opts.Now()
	}
	if err := s.Save(open...); err != nil {
		return 0, fmt.Errorf("recover sessions: %w", err)
	}
	return len(open), nil
}

func (s *Store) unfinished() ([]Record, error) {
	var open []Record
	err := s.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketRecords).ForEach(func(k, _ []byte) error {
			rec, _, err := get(tx, string(k))
			if err == nil && !rec.Status.Terminal() {
				open = append(open, rec)
			}
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list unfinished sessions: %w", err)
	}
	return open, nil
}

// Restarted returns the state of an unfinished session whose process ended.
func (r Record) Restarted() Record {
	if r.Status == runtimeapi.StatusCancelling {
		return r.AsCancelled()
	}
	return r.AsFailed(&runtimeapi.Error{
		Code:    runtimeapi.CodeBotRestarted,
		Message: "The executor was restarted before the task ended.",
	})
}

// AsCancelled returns the cancelled state: stage "cancelled", no error and no
// result (E.1.2).
func (r Record) AsCancelled() Record {
	r.Status, r.Stage = runtimeapi.StatusCancelled, "cancelled"
	r.Error, r.Result = nil, nil
	return r
}

// AsFailed returns the failed state; the stage stays the one it failed in (F.2).
func (r Record) AsFailed(cause *runtimeapi.Error) Record {
	r.Status, r.Error, r.Result = runtimeapi.StatusFailed, cause, nil
	return r
}

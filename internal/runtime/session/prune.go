package session

import (
	"bytes"
	"time"

	bolt "go.etcd.io/bbolt"
)

// pruneGroup bounds how many entries one commit removes, so that a prune never
// holds up a create for long.
const pruneGroup = 500

// Pruned counts what a prune removed.
type Pruned struct {
	Records int
	Keys    int
}

// Prune removes finished records by age and, beyond Options.MaxFinished, oldest
// first; and ledger entries by age alone. A pruned session answers as unknown,
// while its ledger entry still leads a replayed key to the same id.
func (s *Store) Prune() (Pruned, error) {
	var total Pruned
	for {
		var records, keys int
		err := s.update("prune sessions", func(tx *bolt.Tx) error {
			var err error
			if records, err = s.pruneRecords(tx); err != nil {
				return err
			}
			keys, err = s.pruneKeys(tx)
			return err
		})
		if err != nil {
			return total, err
		}
		total.Records += records
		total.Keys += keys
		if records < pruneGroup && keys < pruneGroup {
			return total, nil
		}
	}
}

func (s *Store) pruneRecords(tx *bolt.Tx) (int, error) {
	finished := tx.Bucket(bucketFinished)
	excess := countKeys(finished, s.opts.MaxFinished+pruneGroup) - s.opts.MaxFinished
	oldest := s.opts.Now().Add(-s.opts.RecordRetention)
	keys := oldestKeys(finished, func(i int, at time.Time) bool {
		return i < excess || at.Before(oldest)
	})
	for _, k := range keys {
		if err := tx.Bucket(bucketRecords).Delete(k[stampSize:]); err != nil {
			return 0, err
		}
		if err := finished.Delete(k); err != nil {
			return 0, err
		}
	}
	return len(keys), nil
}

func (s *Store) pruneKeys(tx *bolt.Tx) (int, error) {
	age := tx.Bucket(bucketAge)
	oldest := s.opts.Now().Add(-s.opts.KeyRetention)
	keys := oldestKeys(age, func(_ int, at time.Time) bool { return at.Before(oldest) })
	for _, k := range keys {
		if err := tx.Bucket(bucketLedger).Delete(k[stampSize:]); err != nil {
			return 0, err
		}
		if err := age.Delete(k); err != nil {
			return 0, err
		}
	}
	return len(keys), nil
}

// countKeys counts a bucket's keys, up to limit.
func countKeys(b *bolt.Bucket, limit int) int {
	n := 0
	c := b.Cursor()
	for k, _ := c.First(); k != nil && n < limit; k, _ = c.Next() {
		n++
	}
	return n
}

// oldestKeys copies the leading keys that drop names, at most pruneGroup.
// Keys are collected first because deleting moves a cursor.
func oldestKeys(b *bolt.Bucket, drop func(i int, at time.Time) bool) [][]byte {
	var keys [][]byte
	c := b.Cursor()
	for k, _ := c.First(); k != nil && len(keys) < pruneGroup; k, _ = c.Next() {
		if len(k) <= stampSize || !drop(len(keys), readStamp(k)) {
			break
		}
		keys = append(keys, bytes.Clone(k))
	}
	return keys
}

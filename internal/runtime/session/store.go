package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Bounds a store can't go below, from compile-api.md 0.3 and F.1.
const (
	// MinKeyRetention is the least time a ledger entry is kept.
	MinKeyRetention = 8 * 24 * time.Hour
	// DefaultRecordRetention is how long a finished session can be read.
	DefaultRecordRetention = 24 * time.Hour
	// DefaultMaxFinished is how many finished sessions can be read.
	DefaultMaxFinished = 1000

	// FileName is the store's file inside Options.Dir.
	FileName = "sessions.db"
	// formatVersion is raised when a record's meaning changes.
	formatVersion = "1"
	lockTimeout   = 5 * time.Second
)

// Errors a store may return; others come from the disk.
var (
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("session store is closed")
	// ErrExists says that a record with that id is already there.
	ErrExists = errors.New("session already exists")
	// ErrFormat says that the file was written by another version.
	ErrFormat = errors.New("session store has an unknown format")
)

var (
	bucketMeta     = []byte("meta")
	bucketRecords  = []byte("records")
	bucketFinished = []byte("finished") // time and id of each finished record
	bucketLedger   = []byte("ledger")   // Key -> time and session id
	bucketAge      = []byte("age")      // time and Key of each ledger entry

	keyFormat = []byte("format")
	keyProbe  = []byte("probe")
)

// Options say where a store lives and how long it remembers.
type Options struct {
	// Dir is the store's own: it gets mode 0700, and the file in it 0600, whether
	// they are new or not.
	Dir string
	// RecordRetention and MaxFinished bound finished records by age and count.
	// Zero means the defaults.
	RecordRetention time.Duration
	MaxFinished     int
	// KeyRetention bounds ledger entries by age only; never under
	// MinKeyRetention. Zero means MinKeyRetention.
	KeyRetention time.Duration
	// MaxBytes bounds the file; zero means no bound. A store that is full
	// answers writes with an error and goes on reading.
	MaxBytes int
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.RecordRetention <= 0 {
		o.RecordRetention = DefaultRecordRetention
	}
	if o.MaxFinished <= 0 {
		o.MaxFinished = DefaultMaxFinished
	}
	o.KeyRetention = max(o.KeyRetention, MinKeyRetention)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Store keeps sessions and the key ledger in one bbolt file. It is safe for use
// by many goroutines. A write returns once it is on disk; writes that arrive
// while another is being committed share the next commit, so many at once cost
// little more than one.
type Store struct {
	db   *bolt.DB
	opts Options

	writes  chan write
	stop    chan struct{}
	stopped chan struct{}
	once    sync.Once

	mu        sync.Mutex
	lastWrite time.Time // of the last good commit
}

// Open opens the store of a directory, making both when missing. Only one
// process can have it open: another waits up to five seconds and then fails.
func Open(opts Options) (*Store, error) {
	opts = opts.withDefaults()
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create session directory: %w", err)
	}
	if err := os.Chmod(opts.Dir, 0o700); err != nil { //nolint:gosec // a directory needs its x
		return nil, fmt.Errorf("protect session directory: %w", err)
	}
	path := filepath.Join(opts.Dir, FileName)
	db, err := bolt.Open(path, 0o600, &bolt.Options{
		Timeout:      lockTimeout,
		FreelistType: bolt.FreelistMapType,
		MaxSize:      opts.MaxBytes,
	})
	if err != nil {
		return nil, fmt.Errorf("open session store: %w", err)
	}
	if err := prepare(db, path); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s := &Store{
		db:      db,
		opts:    opts,
		writes:  make(chan write),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	go s.commitLoop()
	return s, nil
}

// prepare tightens a file that was there before and makes the buckets.
func prepare(db *bolt.DB, path string) error {
	if err := os.Chmod(path, 0o600); err != nil {
		return fmt.Errorf("protect session store: %w", err)
	}
	err := db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{bucketMeta, bucketRecords, bucketFinished, bucketLedger, bucketAge} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		meta := tx.Bucket(bucketMeta)
		if v := meta.Get(keyFormat); v != nil && string(v) != formatVersion {
			return ErrFormat
		}
		return meta.Put(keyFormat, []byte(formatVersion))
	})
	if err != nil {
		return fmt.Errorf("prepare session store: %w", err)
	}
	return nil
}

// Close ends the store. Writes that are being committed finish first; later
// calls return ErrClosed or the database's own error.
func (s *Store) Close() error {
	s.once.Do(func() { close(s.stop) })
	<-s.stopped
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close session store: %w", err)
	}
	return nil
}

// probeAge is how old the last good write may be before Check writes again.
const probeAge = 10 * time.Second

// Check reports whether the store can write. It writes a few bytes itself when
// nothing was written for ten seconds.
func (s *Store) Check() error {
	s.mu.Lock()
	fresh := time.Since(s.lastWrite) < probeAge
	s.mu.Unlock()
	if fresh {
		return nil
	}
	return s.update("probe session store", func(tx *bolt.Tx) error {
		return tx.Bucket(bucketMeta).Put(keyProbe, stamp(s.opts.Now()))
	})
}

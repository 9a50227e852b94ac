package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/agentruntime/operator/internal/runtimeapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a settable clock.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func open(t *testing.T, opts Options) *Store {
	t.Helper()
	if opts.Dir == "" {
		opts.Dir = filepath.Join(t.TempDir(), "sessions")
	}
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func pending(id string, at time.Time) Record {
	return Record{
		ID: id, Owner: Scope("a", "u"), To: "viking://resources/x", Status: runtimeapi.StatusPending,
		Stage: "queued", Meta: json.RawMessage("{}"), Created: at.UTC(), Changed: at.UTC(),
	}
}

func mustCreate(t *testing.T, s *Store, rec Record, key *Key) {
	t.Helper()
	if existing, err := s.Create(rec, key); err != nil || existing != "" {
		t.Fatalf("create %s = %q, %v", rec.ID, existing, err)
	}
}

func mustGet(t *testing.T, s *Store, id string) Record {
	t.Helper()
	rec, found, err := s.Get(id)
	if err != nil || !found {
		t.Fatalf("get %s: found %v, %v", id, found, err)
	}
	return rec
}

func TestRecordSurvivesReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "sessions")
	s := open(t, Options{Dir: dir})
	key := NewKey(Scope("a", "u"), "cmp_1")
	want := pending("ses_1", time.Now())
	mustCreate(t, s, want, &key)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, Options{Dir: dir})
	if diff := cmp.Diff(want, mustGet(t, s, "ses_1")); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if id, err := s.Lookup(key); err != nil || id != "ses_1" {
		t.Errorf("Lookup = %q, %v", id, err)
	}
}

func TestFilesArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sessions")
	open(t, Options{Dir: dir})
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, FileName): 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

func TestOpenTightensAnOldFile(t *testing.T) {
	dir := t.TempDir()
	if err := open(t, Options{Dir: dir}).Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, FileName)
	if err := errors.Join(os.Chmod(path, 0o644), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	open(t, Options{Dir: dir})
	for path, want := range map[string]os.FileMode{dir: 0o700, path: 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

func TestOpenRefusesAnotherFormat(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Dir: dir})
	err := s.update("test", func(tx *bolt.Tx) error {
		return tx.Bucket(bucketMeta).Put(keyFormat, []byte("999"))
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: dir}); !errors.Is(err, ErrFormat) {
		t.Errorf("Open = %v, want ErrFormat", err)
	}
}

func TestScopesAndKeysTellUsersApart(t *testing.T) {
	scope := Scope("a", "b")
	if again := Scope("a", "b"); scope != again || scope == Scope("b", "a") {
		t.Error("scope does not name a user")
	}
	key := NewKey("s1", "k")
	if again := NewKey("s1", "k"); key != again || key == NewKey("s2", "k") {
		t.Error("key is not per user")
	}
	if a, b := NewID(), NewID(); a == b || !strings.HasPrefix(a, "ses_") || len(a) != 36 {
		t.Errorf("ids %q, %q", a, b)
	}
}

func TestCreateIsOncePerKey(t *testing.T) {
	s := open(t, Options{})
	key := NewKey(Scope("a", "u"), "cmp_1")
	const n = 64
	ids := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			rec := pending(NewID(), time.Now())
			existing, err := s.Create(rec, &key)
			if err != nil {
				t.Error(err)
			}
			if ids[i] = existing; existing == "" {
				ids[i] = rec.ID
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("two sessions of one key: %v", ids)
		}
	}
	open, err := s.unfinished()
	if err != nil || len(open) != 1 {
		t.Errorf("stored %d sessions, %v", len(open), err)
	}
}

func TestAMemberThatFailsDoesNotSpoilItsGroup(t *testing.T) {
	s := open(t, Options{})
	mustCreate(t, s, pending("taken", time.Now()), nil)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			id := fmt.Sprintf("ses_%d", i)
			if i%4 == 0 {
				id = "taken"
			}
			_, err := s.Create(pending(id, time.Now()), nil)
			if want := i%4 == 0; errors.Is(err, ErrExists) != want {
				t.Errorf("create %s = %v", id, err)
			}
		})
	}
	wg.Wait()
	mustGet(t, s, "ses_39")
}

func TestSaveNeverGoesBack(t *testing.T) {
	states := map[string]struct {
		old, next Record
		want      runtimeapi.Status
	}{
		"pending to running":        {Record{Status: "pending"}, Record{Status: "running"}, "running"},
		"running to a later stage":  {Record{Status: "running"}, Record{Status: "running", Stage: "agent"}, "running"},
		"running to pending":        {Record{Status: "running"}, Record{Status: "pending"}, "running"},
		"cancelling to running":     {Record{Status: "cancelling"}, Record{Status: "running"}, "cancelling"},
		"cancelling to cancelled":   {Record{Status: "cancelling"}, Record{Status: "cancelled"}, "cancelled"},
		"completed to cancelling":   {Record{Status: "completed"}, Record{Status: "cancelling"}, "completed"},
		"cancelled to completed":    {Record{Status: "cancelled"}, Record{Status: "completed"}, "cancelled"},
		"failed stays as it failed": {Record{Status: "failed"}, Record{Status: "failed", Stage: "x"}, "failed"},
	}
	for name, tc := range states {
		t.Run(name, func(t *testing.T) {
			s := open(t, Options{})
			tc.old.ID, tc.next.ID = "ses_1", "ses_1"
			mustCreate(t, s, tc.old, nil)
			if err := s.Save(tc.next); err != nil {
				t.Fatal(err)
			}
			got := mustGet(t, s, "ses_1")
			if got.Status != tc.want {
				t.Errorf("status %s, want %s", got.Status, tc.want)
			}
			if stored := got.Stage == tc.next.Stage; stored != tc.next.Supersedes(tc.old) && tc.next.Stage != "" {
				t.Errorf("stage %q", got.Stage)
			}
		})
	}
}

func TestSaveOfAnUnknownSessionStoresNothing(t *testing.T) {
	s := open(t, Options{})
	if err := s.Save(pending("ses_1", time.Now())); err != nil {
		t.Fatal(err)
	}
	if _, found, err := s.Get("ses_1"); found || err != nil {
		t.Errorf("found %v, %v", found, err)
	}
}

func TestGetOfOddIDs(t *testing.T) {
	s := open(t, Options{})
	for _, id := range []string{"", "\x00", strings.Repeat("x", bolt.MaxKeySize+1)} {
		if _, found, err := s.Get(id); found || err != nil {
			t.Errorf("Get of %d bytes: found %v, %v", len(id), found, err)
		}
	}
}

func TestRecover(t *testing.T) {
	c := newClock()
	dir := t.TempDir()
	s := open(t, Options{Dir: dir, Now: c.Now})
	for id, status := range map[string]runtimeapi.Status{
		"p": runtimeapi.StatusPending, "r": runtimeapi.StatusRunning, "x": runtimeapi.StatusCancelling,
		"done": runtimeapi.StatusCompleted,
	} {
		rec := pending(id, c.Now())
		rec.Status, rec.Stage = status, "agent"
		mustCreate(t, s, rec, nil)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c.advance(time.Minute)
	s = open(t, Options{Dir: dir, Now: c.Now})
	if n, err := s.Recover(); n != 3 || err != nil {
		t.Fatalf("Recover = %d, %v", n, err)
	}
	for id, want := range map[string]struct {
		status runtimeapi.Status
		stage  string
		code   string
	}{
		"p":    {runtimeapi.StatusFailed, "agent", runtimeapi.CodeBotRestarted},
		"r":    {runtimeapi.StatusFailed, "agent", runtimeapi.CodeBotRestarted},
		"x":    {runtimeapi.StatusCancelled, "cancelled", ""},
		"done": {runtimeapi.StatusCompleted, "agent", ""},
	} {
		got := mustGet(t, s, id)
		code := ""
		if got.Error != nil {
			code = got.Error.Code
		}
		if got.Status != want.status || got.Stage != want.stage || code != want.code {
			t.Errorf("%s: %s %q %q, want %+v", id, got.Status, got.Stage, code, want)
		}
	}
	if n, err := s.Recover(); n != 0 || err != nil {
		t.Errorf("second Recover = %d, %v", n, err)
	}
}

func TestAFullStoreStoresNothingAndReads(t *testing.T) {
	s := open(t, Options{MaxBytes: 1 << 20})
	key := NewKey("scope", "small")
	small := pending("small", time.Now())
	mustCreate(t, s, small, &key)

	big := pending("big", time.Now())
	big.Meta = json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`)
	bigKey := NewKey("scope", "big")
	if _, err := s.Create(big, &bigKey); err == nil {
		t.Fatal("a record beyond the bound was stored")
	}
	if _, found, err := s.Get("big"); found || err != nil {
		t.Errorf("half-created record: %v, %v", found, err)
	}
	if id, err := s.Lookup(bigKey); id != "" || err != nil {
		t.Errorf("half-created key: %q, %v", id, err)
	}
	mustGet(t, s, "small")
	if err := s.Check(); err != nil {
		t.Errorf("Check after a failed write that was too big: %v", err)
	}
}

func TestAClosedStoreSaysSo(t *testing.T) {
	s := open(t, Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(pending("a", time.Now()), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Create = %v", err)
	}
	if err := s.Check(); !errors.Is(err, ErrClosed) {
		t.Errorf("Check = %v", err)
	}
	if _, err := s.Lookup(Key{}); err == nil {
		t.Error("Lookup works on a closed store")
	}
	if _, _, err := s.Get("a"); err == nil {
		t.Error("Get works on a closed store")
	}
}

func TestCheckWritesOnlyWhenIdle(t *testing.T) {
	s := open(t, Options{})
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	stats := s.db.Stats()
	before := stats.TxStats.GetWrite()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	stats = s.db.Stats()
	if after := stats.TxStats.GetWrite(); after != before {
		t.Errorf("a second Check wrote %d pages", after-before)
	}
}

func TestIdempotencyKeysAreNotOnDisk(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Dir: dir})
	key := NewKey(Scope("acct-plain", "user-plain"), "key-plain")
	rec := pending("ses_1", time.Now())
	rec.Owner = Scope("acct-plain", "user-plain")
	mustCreate(t, s, rec, &key)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"acct-plain", "user-plain", "key-plain"} {
		if bytes.Contains(raw, []byte(secret)) {
			t.Errorf("%q is on disk", secret)
		}
	}
}

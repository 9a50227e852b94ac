package session

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/agentruntime/operator/internal/runtimeapi"
)

// finishAll creates and completes sessions with keys, one a second.
func finishAll(t *testing.T, s *Store, c *clock, n int) {
	t.Helper()
	for i := range n {
		id := fmt.Sprintf("ses_%04d", i)
		key := NewKey("scope", id)
		rec := pending(id, c.Now())
		mustCreate(t, s, rec, &key)
		rec.Status, rec.Changed = runtimeapi.StatusCompleted, c.Now()
		if err := s.Save(rec); err != nil {
			t.Fatal(err)
		}
		c.advance(time.Second)
	}
}

func has(t *testing.T, s *Store, i int) (record, key bool) {
	t.Helper()
	id := fmt.Sprintf("ses_%04d", i)
	_, record, err := s.Get(id)
	if err != nil {
		t.Fatal(err)
	}
	led, err := s.Lookup(NewKey("scope", id))
	if err != nil {
		t.Fatal(err)
	}
	return record, led == id
}

func TestPruneByCountKeepsKeys(t *testing.T) {
	c := newClock()
	s := open(t, Options{Now: c.Now, MaxFinished: 5})
	finishAll(t, s, c, 12)
	got, err := s.Prune()
	if err != nil || got != (Pruned{Records: 7}) {
		t.Fatalf("Prune = %+v, %v", got, err)
	}
	for i := range 12 {
		record, key := has(t, s, i)
		if record != (i >= 7) || !key {
			t.Errorf("session %d: record %v, key %v", i, record, key)
		}
	}
}

func TestPruneByAge(t *testing.T) {
	c := newClock()
	s := open(t, Options{Now: c.Now, KeyRetention: time.Hour /* raised to 8 days */})
	finishAll(t, s, c, 3)
	live := pending("live", c.Now())
	mustCreate(t, s, live, nil)

	c.advance(DefaultRecordRetention)
	if got, err := s.Prune(); err != nil || got != (Pruned{Records: 3}) {
		t.Fatalf("Prune after a day = %+v, %v", got, err)
	}
	c.advance(MinKeyRetention - DefaultRecordRetention - time.Minute)
	if got, err := s.Prune(); err != nil || got != (Pruned{}) {
		t.Fatalf("Prune before eight days = %+v, %v", got, err)
	}
	if _, key := has(t, s, 0); !key {
		t.Error("key is gone before eight days")
	}
	c.advance(2 * time.Minute)
	if got, err := s.Prune(); err != nil || got != (Pruned{Keys: 3}) {
		t.Fatalf("Prune after eight days = %+v, %v", got, err)
	}
	mustGet(t, s, "live")
}

func TestPruneTakesMoreThanOneGroup(t *testing.T) {
	c := newClock()
	s := open(t, Options{Now: c.Now, MaxFinished: 1})
	var recs []Record
	for i := range 2*pruneGroup + 10 {
		rec := pending(fmt.Sprintf("ses_%04d", i), c.Now())
		recs = append(recs, rec)
	}
	var wg sync.WaitGroup
	for _, rec := range recs {
		wg.Go(func() { mustCreate(t, s, rec, nil) })
	}
	wg.Wait()
	for i := range recs {
		recs[i].Status = runtimeapi.StatusFailed
	}
	if err := s.Save(recs...); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Prune(); err != nil || got.Records != len(recs)-1 {
		t.Errorf("Prune = %+v, %v, want %d records", got, err, len(recs)-1)
	}
}

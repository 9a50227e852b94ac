package session

import (
	"testing"
	"time"
)

// BenchmarkCreate64 tells what 64 concurrent creates cost each.
func BenchmarkCreate64(b *testing.B) {
	s, err := Open(Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			id := NewID()
			key := NewKey("scope", id)
			if _, err := s.Create(pending(id, time.Now()), &key); err != nil {
				b.Fatal(err)
			}
		}
	})
}

package compile

import "github.com/agentruntime/operator/internal/contentstore"

// Limits bound a task (F.1). Passing one is RESOURCE_EXHAUSTED.
type Limits struct {
	SourceRoots int
	SourceFiles int
	SourceBytes int64
	// TargetFiles bounds the target before the run, and what it would hold after.
	TargetFiles int
	TargetBytes int64
	SkillFiles  int
	// SkillFileBytes bounds one file of a Skill, SkillBytes all of them.
	SkillFileBytes int64
	SkillBytes     int64
	// OutputBytes bounds what a compiler returns, which is held in memory.
	OutputBytes int64
	// Warnings bounds how many warnings a result lists.
	Warnings int
}

// DefaultLimits returns the values of F.1; the last two are our own.
func DefaultLimits() Limits {
	return Limits{
		SourceRoots:    16,
		SourceFiles:    5000,
		SourceBytes:    1 << 30,
		TargetFiles:    2000,
		TargetBytes:    1 << 30,
		SkillFiles:     128,
		SkillFileBytes: 8 << 20,
		SkillBytes:     32 << 20,
		OutputBytes:    64 << 20,
		Warnings:       100,
	}
}

// listLimit is the most entries one listing gives; more is a warning, not an
// error (F.1).
const listLimit = contentstore.MaxListEntries

package viking

import "slices"

// The messages of B.2, and two for sources, which B.2 does not name.
const (
	msgSkillShape     = "skill must resolve to a Skill directory or SKILL.md"
	msgSkillTarget    = "Compile Skill target must be a supported skills namespace"
	msgMemoryTarget   = "Compile target must be inside a memory type directory"
	msgResourceTarget = "Compile target must be inside a resource directory"
	msgOtherTarget    = "Compile target must be a resource, memory, or skills directory"
	msgDerivedTarget  = "Compile target must not be an OpenViking derived directory"
	msgSourceDir      = "Compile source must be a directory: "
)

// SkillFile is the file that makes a directory a Skill.
const SkillFile = "SKILL.md"

// MayUse reports whether the caller may name u at all: a user's tree is its
// user's only, and viking://user, which holds them all, is nobody's (G.4).
func (c Caller) MayUse(u URI) bool {
	return u.Scope() != ScopeUser || c.known() && u.User() == c.User
}

// CheckSource says whether u can be a source of a compile of this caller, by its
// path alone (G.4). Whether it exists and is a directory is the store's to say.
// A privacy tree is no source; a reader of viking://user/<uid> must leave the
// privacy directory below it out, too.
func (c Caller) CheckSource(field string, u URI) *FieldError {
	if u.IsRoot() {
		return invalidArgument(field, u, msgSourceDir+u.String())
	}
	if fault := c.checkOwner(field, u); fault != nil {
		return fault
	}
	if InPrivacy(u) {
		return permissionDenied(field, u, "private settings are no source")
	}
	return nil
}

// CheckTarget says whether u can be the target of a compile of this caller, by
// its path alone (B.2, G.4, Q13).
func (c Caller) CheckTarget(field string, u URI) *FieldError {
	if fault := c.checkOwner(field, u); fault != nil {
		return fault
	}
	if message := targetFault(u); message != "" {
		return invalidArgument(field, u, message)
	}
	return nil
}

// CheckSkill says whether u can be the Skill of a compile of this caller, by its
// path alone: it is one segment below a skills directory (B.2, G.4).
func (c Caller) CheckSkill(field string, u URI) *FieldError {
	if fault := c.checkOwner(field, u); fault != nil {
		return fault
	}
	// A Skill of the file's own name could not be told from the file.
	if !u.Classify().SkillRoot || u.Base() == SkillFile || IsDerivedName(u.Base()) {
		return invalidArgument(field, u, msgSkillShape)
	}
	return nil
}

// InPrivacy reports whether u is in a user's privacy tree.
func InPrivacy(u URI) bool {
	segments := u.Segments()
	return len(segments) > 2 && segments[0] == ScopeUser && segments[2] == dirPrivacy
}

func (c Caller) checkOwner(field string, u URI) *FieldError {
	if c.MayUse(u) {
		return nil
	}
	return permissionDenied(field, u, "it is not the caller's own tree")
}

func targetFault(u URI) string {
	segments, class := u.Segments(), u.Classify()
	switch {
	case u.IsRoot():
		return msgOtherTarget
	case class.Type == TypeSkill:
		if !skillNamespace(segments, class) {
			return msgSkillTarget
		}
	case class.NamespaceDir && class.Type == TypeMemory:
		return msgMemoryTarget
	case class.NamespaceDir:
		return msgResourceTarget
	case class.Index == NoIndex && (u.Scope() != ScopeResources || len(segments) < 2):
		// G.3's "everything else": sessions, privacy, a user's root and the like
		// are managed by the server, not by a compile (Q13).
		return msgResourceTarget
	}
	if slices.ContainsFunc(segments, IsDerivedName) {
		return msgDerivedTarget
	}
	return ""
}

// skillNamespace reports viking://agent/skills and viking://user/<uid>/skills:
// the two that take a new Skill.
func skillNamespace(segments []string, class Class) bool {
	return class.NamespaceDir && (class.Index == 1 || segments[0] == ScopeUser)
}

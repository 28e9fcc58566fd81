package worker

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock holds the process from its start: it may read and run its own binary and the
// libraries that this needs, read /proc/self/pagemap, and write its folder of compiled
// code. Everything else in the file system, TCP, abstract sockets and signals to others
// are out of reach, as far as the kernel's version of Landlock knows them.

const (
	landlockRead    = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	landlockExecute = landlockRead | unix.LANDLOCK_ACCESS_FS_EXECUTE
	landlockWrite   = landlockRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE
	// landlockOfFiles are the rights that make sense for a file.
	landlockOfFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// landlock confines the calling thread and what it starts. The result names what holds
// then: nothing on a kernel without Landlock.
func landlock(cacheDir string) (held []string) {
	var rules []landlockRule
	if os.MkdirAll(cacheDir, 0o755) == nil {
		rules = append(rules, landlockRule{cacheDir, landlockWrite})
	}
	for _, path := range []string{"/proc/self/exe", "/lib", "/lib64", "/usr/lib", "/usr/lib64"} {
		rules = append(rules, landlockRule{path, landlockExecute})
	}
	// Landlock doesn't hide other processes' /proc files from the one that it holds.
	for _, path := range []string{"/proc/self", "/etc/ld.so.cache", "/dev/null"} {
		rules = append(rules, landlockRule{path, landlockRead})
	}
	return landlockRestrict(rules)
}

// landlockRule gives rights on a file, or a folder with all in it.
type landlockRule struct {
	path   string
	rights uint64
}

// landlockRestrict leaves the calling thread, and what it starts, these files only.
func landlockRestrict(rules []landlockRule) (held []string) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return nil
	}
	handled := landlockHandled(int(version))
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&handled)), unsafe.Sizeof(handled), 0)
	if errno != 0 {
		return nil
	}
	defer unix.Close(int(set))
	for _, r := range rules {
		landlockAllow(int(set), r.path, r.rights&handled.Handled_access_fs)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); errno != 0 {
		return nil
	}
	held = []string{"landlock_files"}
	if handled.Handled_access_net != 0 {
		held = append(held, "landlock_tcp")
	}
	if handled.Scoped != 0 {
		held = append(held, "landlock_signals")
	}
	return held
}

// landlockHandled is everything that a version of Landlock can forbid.
func landlockHandled(version int) unix.LandlockRulesetAttr {
	handled := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1}
	if version >= 2 {
		handled.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		handled.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 4 {
		handled.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if version >= 5 {
		handled.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		handled.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return handled
}

// landlockAllow adds one rule. What isn't there needs no rule.
func landlockAllow(set int, path string, rights uint64) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) == nil && stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= landlockOfFiles
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	// A rule that isn't taken leaves the process more confined, never less.
	_, _, _ = unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
}

/* The smallest FUSE file system there is: an empty directory, mounted where the argument says, for as long as it is
   mounted. It says "ready" when it answers. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int device;

static void answer(const struct fuse_in_header *asked, int error, void *body, size_t size) {
    struct fuse_out_header head = {.len = sizeof head + size, .error = -error, .unique = asked->unique};
    struct iovec parts[] = {{&head, sizeof head}, {body, size}};
    if (writev(device, parts, size ? 2 : 1) < 0) perror("answer");
}

static void act(const struct fuse_in_header *asked) {
    switch (asked->opcode) {
    case FUSE_INIT: {
        struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_write = 4096};
        answer(asked, 0, &out, sizeof out);
        puts("ready");
        fflush(stdout);
        break;
    }
    case FUSE_GETATTR: {
        struct fuse_attr_out out = {
            .attr = {.ino = 1, .mode = S_IFDIR | 0700, .nlink = 2, .uid = getuid(), .gid = getgid()}};
        answer(asked, 0, &out, sizeof out);
        break;
    }
    case FUSE_STATFS: {
        struct fuse_statfs_out out = {.st = {.bsize = 4096, .namelen = 255}};
        answer(asked, 0, &out, sizeof out);
        break;
    }
    case FUSE_LOOKUP:
        answer(asked, ENOENT, NULL, 0);
        break;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        break;
    default:
        answer(asked, ENOSYS, NULL, 0);
    }
}

int main(int count, char **arguments) {
    static char asked[1 << 17];
    char options[128];
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (count != 2 || device < 0) return perror("/dev/fuse"), 1;
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=%d,group_id=%d", device, getuid(), getgid());
    if (mount("smallest", arguments[1], "fuse", MS_NOSUID | MS_NODEV, options)) return perror("mount"), 1;
    for (;;) {
        ssize_t length = read(device, asked, sizeof asked);
        if (length < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN)) continue;
        if (length < 0) return errno != ENODEV;
        act((const struct fuse_in_header *)asked);
    }
}

/* Watches for the ends of other processes, and notifies an attendant when one has ended. */
#include "local/local_attendant.h"

#include "base/memory.h"
#include "base/process.h"

#include <poll.h>
#include <unistd.h>

struct plock__local_death_watch {
    plock_job job;
    plock__local_death_watch *next;    /* the next watch for the same place */
    plock_local_lease *told;           /* the leases for which the attendant must look when the
                                        * process ends */
    plock__local_attendant *attendant; /* under the mutex; NULL: no attendant needs this watch */
    unsigned generation;
    uint64_t process; /* ANY: the watch is for all processes */
    int fd;
};

/* No process has this id. */
static const uint64_t ANY = 0;

/* --- the leases for which the attendant looks when a process ends; with the mutex held --- */

void plock__local_tell_no_more(plock_local_lease *lease) {
    if (!lease->told) return;
    if (lease->next_told) lease->next_told->told = lease->told;
    *lease->told = lease->next_told;
    lease->told = NULL;
}

/* Makes the attendant look on behalf of each lease in the list, and empties the list. If a lease
 * still waits after the attendant has looked, plock__local_tell adds the lease to a list again. */
static void all_look(plock_local_lease **list) {
    while (*list) {
        plock__local_look_at(*list, 0);
        plock__local_tell_no_more(*list);
    }
}

static void tell_of_end(plock__local_death_watch *watch) {
    all_look(&watch->told);
    all_look(&watch->attendant->told_by_several);
    plock__worker_schedule(&watch->attendant->job);
}

/* --- the watches; with the mutex held --- */

static plock__local_death_watch **watches_at(plock__local_attendant *attendant, uint64_t process) {
    return &attendant->watches[process % PLOCK__LOCAL_PROCESSES];
}

static plock__local_death_watch *find(const plock__local_attendant *attendant, uint64_t process) {
    plock__local_death_watch *watch = attendant->watches[process % PLOCK__LOCAL_PROCESSES];
    while (watch && watch->process != process) watch = watch->next;
    return watch;
}

bool plock__local_watches(const plock__local_attendant *attendant, uint64_t process) {
    return find(attendant, process);
}

static void unlink_watch(plock__local_death_watch *watch) {
    plock__local_death_watch **link = watches_at(watch->attendant, watch->process);
    while (*link && *link != watch) link = &(*link)->next;
    if (*link) *link = watch->next;
    while (watch->told) plock__local_tell_no_more(watch->told);
    watch->attendant = NULL;
}

void plock__local_tell(plock__local_attendant *attendant, plock_local_lease *lease,
                       const plock__local_outlook *outlook) {
    plock__local_tell_no_more(lease);
    if (outlook->count == 0) return;
    plock__local_death_watch *watch =
        outlook->count == 1 ? find(attendant, outlook->processes[0]) : NULL;
    if (!watch && outlook->count == 1) watch = find(attendant, ANY);
    plock_local_lease **list = watch ? &watch->told : &attendant->told_by_several;
    lease->next_told = *list;
    lease->told = list;
    if (lease->next_told) lease->next_told->told = &lease->next_told;
    *list = lease;
}

/* --- the jobs of the watches --- */

static plock_status hear_of_end(plock_job *job, plock_interest *interest) {
    plock__local_death_watch *watch = (plock__local_death_watch *)(void *)job;
    const bool goes_on = watch->process == ANY; /* a watch for one process ends with it */
    char events[1024];
    while (goes_on && job->ready && read(watch->fd, events, sizeof events) > 0) continue;
    plock__enter();
    plock__local_attendant *attendant = watch->attendant;
    if (attendant && job->ready) {
        if (goes_on) attendant->some_ended_at = plock_now();
        tell_of_end(watch);
        if (!goes_on) unlink_watch(watch); /* so that no lease relies on the watch any more */
    }
    plock__leave();
    if (!attendant || (job->ready && !goes_on)) return PLOCK_OK;
    *interest = (plock_interest){.fd = watch->fd, .events = POLLIN, .deadline = PLOCK_NEVER};
    return PLOCK_AGAIN;
}

static void end_watch(plock_job *job) {
    plock__local_death_watch *watch = (plock__local_death_watch *)(void *)job;
    plock__enter();
    if (watch->attendant && watch->generation == plock__generation()) unlink_watch(watch);
    plock__leave();
    (void)close(watch->fd);
    plock__free(watch);
}

/* --- beginning and ending --- */

static bool begin_watch(plock__local_attendant *attendant, uint64_t process, int fd) {
    plock__local_death_watch *watch = fd < 0 ? NULL : plock__allocate(sizeof *watch);
    if (!watch) {
        if (fd >= 0) (void)close(fd);
        return false;
    }
    *watch = (plock__local_death_watch){.job = {.step = hear_of_end,
                                                .destroy = end_watch,
                                                .lingers = true,
                                                .idle = plock__job_idles},
                                        .generation = plock__generation(),
                                        .process = process,
                                        .fd = fd};
    plock__enter();
    plock__local_death_watch **link = watches_at(attendant, process);
    watch->attendant = attendant;
    watch->next = *link;
    *link = watch;
    plock__leave();
    plock__worker_submit(&watch->job);
    return true;
}

/* The call that begins the watch returns false, because a process may have ended before the watch
 * began. After the watch has reported an end, calls return false for 20 ms. During that time, the
 * kernel may not have released the dead process's lock yet. */
bool plock__local_watch_all(plock__local_attendant *attendant, plock_ns now) {
    static const plock_ns MOMENT = 20 * PLOCK_MILLISECOND;
    plock__enter();
    const bool known = plock__local_watches(attendant, ANY),
               quiet = now > attendant->some_ended_at + MOMENT;
    plock__leave();
    if (!known && !attendant->cannot_hear)
        attendant->cannot_hear = !begin_watch(attendant, ANY, plock__local_ends(attendant->map));
    return known && quiet;
}

bool plock__local_watch_process(plock__local_attendant *attendant, uint64_t process, plock_ns now) {
    plock__enter();
    const bool known = plock__local_watches(attendant, process);
    plock__leave();
    if (known) return true;
    const int fd = plock__local_death_of(attendant->map, process);
    struct pollfd over = {.fd = fd, .events = POLLIN};
    /* If the process has ended, it counts as alive only because a child has inherited its lock.
     * This descriptor cannot report when the child ends. */
    const bool dead = fd >= 0 && poll(&over, 1, 0) > 0;
    if (fd >= 0 && !dead) return begin_watch(attendant, process, fd);
    if (fd >= 0) (void)close(fd);
    return plock__local_watch_all(attendant, now);
}

void plock__local_end_watches(plock__local_attendant *attendant) {
    for (int place = 0; place < PLOCK__LOCAL_PROCESSES; place++)
        while (attendant->watches[place]) {
            plock__local_death_watch *watch = attendant->watches[place];
            unlink_watch(watch);
            plock__worker_schedule(&watch->job);
        }
    while (attendant->told_by_several) plock__local_tell_no_more(attendant->told_by_several);
}

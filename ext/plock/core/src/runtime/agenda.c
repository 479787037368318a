#include "runtime/agenda.h"

#include "base/container.h"
#include "base/process.h"

#ifdef PLOCK_TESTING
static atomic_ulong visited;

unsigned long plock__jobs_visited(void) { return atomic_exchange(&visited, 0); }

void plock__job_visit(void) { atomic_fetch_add(&visited, 1); }
#endif

/* --- lists --- */

void plock__jobs_append(plock__job_list *list, plock_job *job) {
    job->next = NULL;
    job->previous = list->last;
    *(list->last ? &list->last->next : &list->first) = job;
    list->last = job;
}

void plock__jobs_append_all(plock__job_list *to, plock__job_list *from) {
    if (!from->first) return;
    from->first->previous = to->last;
    *(to->last ? &to->last->next : &to->first) = from->first;
    to->last = from->last;
    *from = (plock__job_list){0};
}

static void remove_job(plock__job_list *list, plock_job *job) {
    *(job->next ? &job->next->previous : &list->last) = job->previous;
    *(job->previous ? &job->previous->next : &list->first) = job->next;
    job->next = job->previous = NULL;
}

plock_job *plock__jobs_pop(plock__job_list *list) {
    plock_job *job = list->first;
    if (job) remove_job(list, job);
    return job;
}

/* --- the jobs with an `idle` function --- */

static void check(plock__agenda *agenda, plock_job *job) {
    job->previous_checked = NULL;
    job->next_checked = agenda->checked;
    if (job->next_checked) job->next_checked->previous_checked = job;
    agenda->checked = job;
}

static void uncheck(plock__agenda *agenda, plock_job *job) {
    if (job->next_checked) job->next_checked->previous_checked = job->previous_checked;
    *(job->previous_checked ? &job->previous_checked->next_checked : &agenda->checked) =
        job->next_checked;
}

plock_ns plock__job_idles(const plock_job *job) {
    (void)job;
    return PLOCK_SECOND;
}

plock_ns plock__agenda_idle(const plock__agenda *agenda) {
    if (agenda->busy || agenda->due.first || agenda->count == 0) return 0;
    plock_ns least = PLOCK_SECOND;
    for (const plock_job *job = agenda->checked; job && least > 0; job = job->next_checked) {
        plock__job_visit();
        const plock_ns span = job->idle(job);
        if (span < least) least = span;
    }
    return least;
}

/* --- the agenda --- */

static void make_due(plock__agenda *agenda, plock_job *job) {
    job->progress = PLOCK__JOB_DUE;
    plock__jobs_append(&agenda->due, job);
    agenda->due_count++;
}

void plock__agenda_take(plock__agenda *agenda, plock__job_list *jobs) {
    for (plock_job *job; (job = plock__jobs_pop(jobs));) {
        agenda->count++;
        if (job->idle)
            check(agenda, job);
        else
            agenda->busy++;
        make_due(agenda, job);
    }
}

void plock__agenda_schedule(plock__agenda *agenda, plock_job *job) {
    if (job->progress != PLOCK__JOB_RESTS && job->progress != PLOCK__JOB_STEPPED) return;
    /* a job of the parent process is not in this agenda */
    if (job->generation != plock__generation()) return;
    plock__heap_remove(&agenda->resting, &job->moment);
    make_due(agenda, job);
}

static plock_job *pop_due(plock__agenda *agenda) {
    plock_job *job = plock__jobs_pop(&agenda->due);
    if (job) agenda->due_count--;
    return job;
}

static plock_job *pop_resting(plock__agenda *agenda) {
    plock__heap_entry *first = agenda->resting.first;
    if (!first) return NULL;
    plock__heap_remove(&agenda->resting, first);
    return PLOCK__CONTAINER(plock_job, moment, first);
}

plock_job *plock__agenda_next(plock__agenda *agenda, unsigned *due, plock_ns now) {
    plock_job *job = NULL;
    if (*due > 0) {
        job = pop_due(agenda);
        --*due;
    } else if (now >= plock__heap_at(&agenda->resting)) {
        job = pop_resting(agenda);
    }
    if (job) job->progress = PLOCK__JOB_STEPPED;
    return job;
}

void plock__agenda_rest(plock__agenda *agenda, plock_job *job, plock_ns moment, plock_ns now) {
    if (job->progress != PLOCK__JOB_STEPPED) return;
    if (now >= moment) {
        make_due(agenda, job);
        return;
    }
    job->progress = PLOCK__JOB_RESTS;
    plock__heap_insert(&agenda->resting, &job->moment, moment);
}

void plock__agenda_drop(plock__agenda *agenda, plock_job *job) {
    if (job->progress == PLOCK__JOB_DUE) {
        remove_job(&agenda->due, job);
        agenda->due_count--;
    }
    job->progress = PLOCK__JOB_OUT;
    agenda->count--;
    if (job->idle)
        uncheck(agenda, job);
    else
        agenda->busy--;
}

plock_job *plock__agenda_empty(plock__agenda *agenda) {
    plock_job *job = pop_due(agenda);
    if (!job) job = pop_resting(agenda);
    if (job)
        job->progress = PLOCK__JOB_OUT;
    else
        *agenda = (plock__agenda){0};
    return job;
}

void plock__agenda_put_away(plock__agenda *to, plock__agenda *from) {
    plock__jobs_append_all(&to->due, &from->due);
    plock__heap_merge(&to->resting, &from->resting);
    to->due_count += from->due_count;
    *from = (plock__agenda){0};
}

plock_ns plock__agenda_when(const plock__agenda *agenda) {
    return agenda->due.first ? 0 : plock__heap_at(&agenda->resting);
}

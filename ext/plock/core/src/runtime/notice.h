/* Posting notices. */
#ifndef PLOCK__NOTICE_H
#define PLOCK__NOTICE_H

#include "base/text.h"
#include "plock/notice.h"

/* Adds a notice. Not with the lock held. If there is no memory, the notice is lost: nothing depends
 * on it. */
void plock__notice_post(plock_notice_kind kind, uint64_t id, plock_text key, int64_t fence,
                        plock_ns took);

void plock__notices_in_child(void);

#endif

/* Posting notices. */
#ifndef PLOCK__NOTICE_H
#define PLOCK__NOTICE_H

#include "base/text.h"
#include "plock/notice.h"

/* Adds a notice. Must not be called with the mutex held. If memory runs out, the notice is lost,
 * but no part of the engine depends on notices. */
void plock__notice_post(plock_notice_kind kind, uint64_t id, plock_text key, int64_t fence,
                        plock_ns took);

void plock__notices_in_child(void);

#endif

# frozen_string_literal: true

# GC.compact of Ruby 3.1 and 3.2 reads one word too far on the stack of each thread
# (https://github.com/ruby/ruby/pull/7081). It crashes if this word refers to a page of objects
# that was freed. With this environment, Ruby frees no page.
SAFE_COMPACTION =
  RUBY_VERSION < "3.3" ? { "RUBY_GC_HEAP_FREE_SLOTS_MAX_RATIO" => "1.0" }.freeze : {}.freeze

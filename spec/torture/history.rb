# frozen_string_literal: true

require_relative "chronicle"

module Torture
  # One call, as the lane that made it wrote it down; times on Clock, spans in nanoseconds. Nil: it did not come to that.
  #   asked          before the call
  #   entered, left  first and last of the block; the lock is released after left
  #   ended          after the call; outcome: how
  #   valid_until    of the lease, as it last said; at_first: as it said on entry
  #   queued         when it was known to be in the queue
  #   downgraded     when a writer asked to be a reader
  # Who asks for several keys at once is as many calls.
  Call = Struct.new(:life, :lane, :number, :way, :key, :asked, :wait, :ttl, :interrupt, :entered, :fence, :at_first, :valid_until,
                    :left, :ended, :outcome, :queued, :downgraded, keyword_init: true) do
    def to_s = "worker #{life} lane #{lane} call #{number}, #{way.name} #{key}"

    def child? = life.include?("c")
  end

  # All that is known of a run.
  #   gaps  worker => [[from, to, excused], ...] of its heart
  History = Struct.new(:calls, :chronicle, :gaps, :findings, :counts, keyword_init: true) do
    def life(call) = chronicle.lives[call.life]

    # What of the time from..to the worker was kept from running by its own work or that of others on this machine.
    def excused(call, from, to)
      gaps.fetch(call.life, []).sum { |began, ended, credit| began < to && from < ended ? credit : 0 }
    end

    # What was done from..to to this worker, its connections or the server: [what, from, to].
    def suffered(call, from, to)
      life = life(call) or return []
      { stopped: life.stops, cut: life.cuts, down: chronicle.downs }.flat_map do |what, spans|
        spans.filter_map { |began, over| [what, began, over] if began < to && from < over + History::RECOVERY }
      end
    end

    # Was nothing done to this waiter from..to, and did it live to tell? (Of a child that was forked nothing is known.)
    def undisturbed?(call, from, to)
      !call.child? && !call.ended.nil? && suffered(call, from, to).empty?
    end

    # When something was done to anybody: [from, to].
    def disturbances
      @disturbances ||= [*chronicle.downs, *chronicle.lives.each_value.flat_map { |life| disturbances_of(life) }]
    end

    private

    def disturbances_of(life)
      [*life.stops, *life.cuts, *([[life.died - 1, life.died]] if life.killed)]
    end
  end

  History::RECOVERY = SECOND / 4 # after which connections have been made again
end

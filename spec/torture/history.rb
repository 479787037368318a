# frozen_string_literal: true

require_relative "chronicle"
require_relative "delays"

module Torture
  # One call, from its lane's journal. Times are read from Clock, in nanoseconds. A field is
  # nil if its event did not happen.
  #   asked          before the call
  #   entered, left  the beginning and the end of the block; the release comes after `left`
  #   ended          after the call
  #   outcome        the call's result, one of Lane::OUTCOMES
  #   valid_until    the lease's end as it was last reported
  #   at_first       the lease's end as it was reported on entry
  #   queued         from this time on, the call was certainly in the queue
  #   downgraded     when a writer asked to become a reader
  #   waited, held   when the call was last seen in the queue, or as the holder
  #   seen           when the call was first seen in the queue
  #   unreleased     when the call learnt that its release failed
  #   unextended     when the call learnt that an extension failed
  #   lost           [[when the call learnt of a loss, what was then known as the lease's end], ...]
  #   handed         did the call dump its lease?
  #   adopts         the fence of the lease that the call adopts
  #   watched        is its lease renewed in the background, so that a loss is reported?
  # A request for several keys becomes one Call for each key.
  Call =
    Struct.new(
      :life, :lane, :number, :way, :key, :asked, :wait, :ttl, :interrupt, :entered, :fence,
      :at_first, :valid_until, :left, :ended, :outcome, :queued, :downgraded, :waited, :held, :seen,
      :unreleased, :unextended, :lost, :handed, :adopts, :watched, keyword_init: true
    ) do
      def to_s = "worker #{life} lane #{lane} call #{number}, #{way.name} #{key}"

      def child? = life.include?("c")
    end

  # All that is known about a round.
  History = Struct.new(:calls, :chronicle, :delays, :findings, :counts, keyword_init: true) do
    def life(call) = chronicle.lives[call.life]

    # The part of from..to that the call could not use, because its worker was busy, or because
    # other processes used the machine.
    def excused(call, from, to)
      delays.of(call.life, from, to)
    end

    # Was there a long time without a break in which no thread of the worker could run?
    def stalled?(call, from, to)
      delays.stalled?(call.life, from, to)
    end

    # How long, within `from..to`, the server or this machine was too busy to answer the onlooker.
    def slow(from, to)
      chronicle.slow.sum { |began, over| [[over, to].min - [began, from].max, 0].max }
    end

    # The disturbances of this call's worker, of its connections or of the server, in from..to.
    # Each is [kind, from, to].
    def suffered(call, from, to)
      life = life(call) or return []
      { stopped: life.stops, cut: life.cuts, down: chronicle.downs,
        dark: chronicle.darks.fetch(life.slot, []) }.flat_map do |what, spans|
        spans.filter_map do |began, over|
          [what, began, over] if began < to && from < recovered(call, over)
        end
      end
    end

    # Did this call return, and was it undisturbed in from..to? The answer is no for a forked child,
    # because its disturbances are not recorded.
    def undisturbed?(call, from, to)
      !call.child? && !call.ended.nil? && suffered(call, from, to).empty?
    end

    # The times in from..to when the server forgot keys of this lock. If `all`, only the times when
    # the server forgot all keys.
    def oblivions(key, from, to, all: false)
      chronicle.oblivions.select do |oblivion|
        concerns = oblivion.key.nil? || (!all && oblivion.key == key)
        concerns && oblivion.from < to && from < oblivion.to
      end
    end

    # [from, to] of all disturbances of any worker or of the server.
    def disturbances
      @disturbances ||= [*chronicle.downs, *chronicle.darks.values.flatten(1),
                         *chronicle.lives.each_value.flat_map { |life| disturbances_of(life) }]
    end

    private

    # The moment by which the worker has connected again.
    def recovered(call, over) =
      over + History::RECOVERY + excused(call, over, over + History::RECOVERY)

    def disturbances_of(life)
      [*life.stops, *life.cuts, *([[life.died - 1, life.died]] if life.killed)]
    end
  end

  History::RECOVERY = SECOND / 4
end

# frozen_string_literal: true

require_relative "witness"

module Torture
  # A round in words.
  class Report
    EXAMPLES = 5

    def initialize(seed, witness)
      @seed = seed
      @witness = witness
    end

    def sound? = @witness.findings.empty?

    def to_s
      [figures, *findings].join("\n")
    end

    private

    def figures
      c = @witness.counts
      <<~TEXT.chomp
        seed #{@seed}: #{c[:calls]} calls (#{c[:from_children]} from forked children), #{c[:entered]} got it, #{c[:refused]} were refused, #{c[:failed]} failed, #{c[:interrupted]} were interrupted, #{c[:cut_short]} died
          blows: #{%i[kill stop cut cut_pubsub flush restart calm].map { |kind| "#{kind} #{c[kind]}" }.join(", ")}; #{c[:forks]} forks inside blocks
          looked at: #{c[:leases]} leases, #{c[:fences]} pairs of fences, #{c[:budgets]} budgets, #{c[:waiters]} undisturbed waiters, #{c[:checks]} looks at a lease, #{c[:inventories]} inventories
      TEXT
    end

    def findings
      @witness.findings.group_by(&:kind).flat_map do |kind, all|
        ["  #{kind.to_s.upcase}: #{all.size}", *all.first(EXAMPLES).map { |finding| "    #{finding.text.strip.gsub("\n", "\n      ")}" },
         *details(all.first.calls)]
      end
    end

    # Of the first finding of each kind: what the calls went through, in milliseconds from the first of it.
    def details(calls)
      start = calls.map(&:asked).min
      calls.map { |call| "      #{call}: #{moments(call, start)}#{suffered(call, start)}" }
    end

    def moments(call, start)
      moments = %i[asked queued entered left ended valid_until].filter_map { |name| [name, call[name]] if call[name] }
      list = moments.sort_by(&:last).map { |name, at| "#{name} #{ms(at - start)}" }
      "wait #{ms(call.wait)}, ttl #{ms(call.ttl)}: #{list.join(", ")} (#{call.outcome || "died"})"
    end

    def suffered(call, start)
      to = call.ended || call.entered || call.asked
      @witness.history.suffered(call, call.asked, to).map { |what, from, over| ", #{what} #{ms(from - start)}..#{ms(over - start)}" }.join
    end

    def ms(span) = format("%.1f", span.fdiv(MILLISECOND))
  end
end

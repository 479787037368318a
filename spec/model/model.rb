# frozen_string_literal: true

# Checks that the waiting protocol keeps its promises in every scenario, and that each rule is
# necessary.
#
#   ruby spec/model/model.rb                  small scenarios
#   ruby spec/model/model.rb --needed         each rule, switched off once
#   ruby spec/model/model.rb --full           both, and all scenarios
#   ruby spec/model/model.rb --without RULE   shows what happens without a rule (--rules lists them)

require_relative "explorer"
require_relative "scenarios"
require_relative "shared_scenarios"
require_relative "failover_scenarios"
require_relative "outage_scenarios"

module Model
  # Runs scenarios and compares the results with the expected ones.
  class Report
    ALL = [Scenarios, SharedScenarios, FailoverScenarios, OutageScenarios].freeze
    BROKEN = ALL.flat_map { |all| all.broken.to_a }
    BROKEN_AT_LENGTH = (ALL - [Scenarios]).flat_map { |all| all.broken_at_length.to_a }
    HEAD =
      format(
        "%-38s %-11s %-7s %9s %10s %7s  %s", "scenario", "clients", "idle", "states", "steps",
        "CPU s", "verdict"
      )

    def initialize
      @failures = []
      @started = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    end

    def promises(scenarios)
      puts HEAD
      scenarios.each do |scenario|
        outcome = Explorer.new(scenario, rules).run
        line(outcome, outcome.violation ? "BROKEN" : "holds")
        failed(scenario.title, outcome) if outcome.violation
      end
    end

    def rules_needed(full)
      puts "", "Without a rule; each must break what is named"
      (full ? BROKEN + BROKEN_AT_LENGTH : BROKEN).each do |rule, (property, scenario, *others)|
        must_break(RULES.fetch(rule), scenario, property, rules(rule, *others))
      end
      puts "", "Against this there is no rule"
      [Scenarios, FailoverScenarios].flat_map { |all| all.known.to_a }.each do |property, scenario|
        must_break(scenario.title, scenario, property, rules)
      end
    end

    def without(rule)
      known = (BROKEN + BROKEN_AT_LENGTH).select { |name,| name == rule }
      abort "there is no such rule; they are #{RULES.keys.join(", ")}" if known.empty?
      known.each do |_, (_, scenario, *others)|
        puts "Without rule #{RULES[rule]}", "Scenario: #{scenario.title}", ""
        tell(Explorer.new(scenario, rules(rule, *others)).run)
      end
    end

    def finish
      seconds = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - @started
      puts "",
           format(
             "%.1f s of CPU, %d MB, %s", seconds, peak_mb,
             @failures.empty? ? "as expected" : "NOT AS EXPECTED:"
           )
      @failures.each do |title, outcome|
        puts "", title
        tell(outcome)
      end
      exit @failures.empty?
    end

    private

    def rules(*off) = RULES.keys.to_h { |rule| [rule, !off.include?(rule)] }

    def must_break(title, scenario, property, rules)
      outcome = Explorer.new(scenario, rules).run
      found = outcome.violation&.first
      puts format(
        "%-96s %-10s in %3d lines, %6d states",
             title,
             found || "nothing",
             outcome.trace&.size || 0,
             outcome.states
      )
      failed("#{title}: expected to break #{property}", outcome) unless found == property
    end

    def line(outcome, verdict)
      scenario = outcome.scenario
      idle = scenario.delays ? "-" : "#{outcome.idle} of #{scenario.idle}"
      puts format(
        "%-38s %-11s %-7s %9d %10d %7.1f  %s",
             scenario.title,
             scenario.processes.join(" "),
             idle,
             outcome.states,
             outcome.steps,
             outcome.seconds,
             verdict
      )
    end

    def failed(title, outcome) = @failures << [title, outcome]

    def tell(outcome)
      return puts "Nothing is broken." unless outcome.violation

      number = 0
      print_line = ->(text) { puts format("%4d  %s", number += 1, text) }
      outcome.trace.each(&print_line)
      return unless outcome.cycle

      puts "#{outcome.violation.last.capitalize}; for example, again and again:"
      outcome.cycle.each(&print_line)
    end

    # The most memory that the process has used so far. 0: unknown, because the system is not Linux.
    def peak_mb
      status = "/proc/self/status"
      File.exist?(status) ? File.read(status)[/VmHWM:\s+(\d+)/, 1].to_i / 1024 : 0
    end
  end
end

if $PROGRAM_NAME == __FILE__
  $stdout.sync = true
  report = Model::Report.new
  case ARGV
  in ["--rules"] then Model::RULES.each { |name, text| puts format("%-16s %s", name, text) }
  in ["--without", rule] then report.without(rule.to_sym)
  in [] | ["--full"]
    full = ARGV.any?
    all = Model::Report::ALL
    report.promises(all.flat_map(&:short) + (full ? all.flat_map(&:long) : []))
    report.rules_needed(full) if full
    report.finish
  in ["--needed"]
    report.rules_needed(false)
    report.finish
  else abort "usage: model.rb [--needed | --full | --rules | --without RULE]"
  end
end

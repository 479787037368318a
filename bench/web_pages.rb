# frozen_string_literal: true

# Measures how much the web pages slow down the locks. Processes acquire and release, with and
# without a viewer who has the list of 10,000 locks open. Turns with and without the viewer
# alternate, so that other load on the machine affects both. In turns without the viewer, its
# process is stopped.
#
#   bundle exec ruby -Ilib bench/web_pages.rb [SECONDS a turn] [TURNS]

$LOAD_PATH.unshift(File.expand_path("../spec", __dir__))

require "plock/web"
require "rack/mock"
require "support/redis_server"
require "support/written_locks"

SECONDS = Float(ARGV.fetch(0, 6))
TURNS = Integer(ARGV.fetch(1, 15))
WORKERS = 2
REFRESH_S = 5 # the default of the pages
WARM_UP_S = 8 # long enough for the viewer's process to see all locks once

server = Support::RedisServer.start
store = Plock::Store.open(server.unix_url)
server.client.pipelined do |pipeline|
  locks = Support::WrittenLocks.new(pipeline, store)
  10_000.times { |number| locks.hold("k#{number}", pid: number + 1, label: "lock #{number}") }
  1_000.times { |number| locks.wait("k#{number}", host: "web-2", pid: number + 1, since: 9) }
end

# Returns the pairs of acquire and release per second, of all workers together.
work = ->(seconds) do
  pipes = Array.new(WORKERS) do |number|
    reader, writer = IO.pipe
    pid = fork do
      mine = Plock::Store.open(server.unix_url)
      ends = Plock::Clock.now + seconds
      pairs = 0
      while Plock::Clock.now < ends
        mine.acquire("worker #{number}", ttl: 10) { pairs += 1 }
      end
      writer.write(pairs)
      exit!(0)
    end
    writer.close
    [reader, pid]
  end
  pipes.sum do |reader, pid|
    Integer(reader.read).tap { Process.wait(pid) }
  end / seconds
end

# Forks a process with the pages, and with a viewer who keeps the list open.
view = -> do
  fork do
    pages = Rack::MockRequest.new(Plock::Web.new(Plock::Store.open(server.unix_url)))
    times = []
    trap(:TERM) do
      sorted = times.sort
      $stdout.syswrite(format("  list: %d requests, median %.0f ms, longest %.0f ms\n",
                              times.size, sorted[times.size / 2] * 1000, sorted.last * 1000))
      exit!(0)
    end
    loop do
      began = Plock::Clock.now
      body = pages.get("/locks").body
      times << (Plock::Clock.now - began)
      sleep(body.include?("Still counting") ? 1 : REFRESH_S)
    end
  end
end

rates = { without: [], with: [] }
viewer = view.call
work.call(WARM_UP_S)
TURNS.times do |turn|
  order = turn.even? ? %i[without with] : %i[with without]
  order.each do |way|
    Process.kill(way == :with ? :CONT : :STOP, viewer)
    rates[way] << work.call(SECONDS)
  end
end
Process.kill(:CONT, viewer)
Process.kill(:TERM, viewer)
Process.wait(viewer)
rates.each { |name, all| puts "#{name} a viewer: #{all.map(&:round).join(" ")}" }
ratios = rates[:with].zip(rates[:without]).map { |with, without| with / without }.sort
puts format("pairs/s with a viewer against without, by turns: %+.1f %% in the middle, " \
            "from %+.1f to %+.1f %%",
            *[ratios[TURNS / 2], *ratios.minmax].map { |ratio| (ratio - 1) * 100 })
server.stop

# frozen_string_literal: true

require "spec_helper"
require "json"
require "support/command_line"
require "support/documents"
require "support/sentinels"

RSpec.describe "plock doctor with sentinels", :slow, needs: Support::RedisServer::PROGRAM do
  include Support::CommandLine

  before(:all) { @group = Support::Sentinels.new }

  after(:all) { @group.stop }

  def finding(url = @group.url, check = "sentinels")
    output, = plock("doctor", "--json", env: { "PLOCK_URL" => url })
    JSON.parse(output)["findings"].find { |one| one["check"] == check }
  end

  def refuse_writes_without_replicas(least = 1) = set("min-replicas-to-write", least)

  def set(*setting) = @group.servers.each { |one| one.call("CONFIG", "SET", *setting) }

  it "warns of a primary that grants locks while it is cut off" do
    expect(finding).to include(
      "level" => "danger", "message" => /min-replicas-to-write 0.*cut off/,
      "remedy" => /CONFIG SET min-replicas-to-write 1/
    )
  end

  it "warns of that even if a sentinel does not answer" do
    url = @group.url.sub("://", "://127.0.0.1:1,")
    expect(finding(url)).to include("level" => "danger", "message" => /min-replicas-to-write 0/)
  end

  it "tells what a failover loses if nothing else is wrong" do
    refuse_writes_without_replicas
    expect(finding).to include(
      "level" => "fine", "message" => /\A3 that agree.*silent for 0\.3 s.*loses the locks/
    )
  ensure
    refuse_writes_without_replicas(0)
  end

  it "warns of a lag that turns this off" do
    refuse_writes_without_replicas
    set("min-replicas-max-lag", 0)
    expect(finding).to include(
      "level" => "danger", "message" => /min-replicas-max-lag 0.*cut off/,
      "remedy" => /CONFIG SET min-replicas-max-lag 10/
    )
  ensure
    set("min-replicas-max-lag", 10)
    refuse_writes_without_replicas(0)
  end

  it "advises against a long lag" do
    refuse_writes_without_replicas
    set("min-replicas-max-lag", 11)
    expect(finding).to include(
      "level" => "advice", "message" => /min-replicas-max-lag 11: .*cut off.* for 11 s/,
      "remedy" => /CONFIG SET min-replicas-max-lag 10/
    )
  ensure
    set("min-replicas-max-lag", 10)
    refuse_writes_without_replicas(0)
  end

  it "has nothing against either if replicas confirm each lock" do
    set("min-replicas-max-lag", 0)
    expect(finding("#{@group.url}?replicas=2")).to include("level" => "fine")
  ensure
    set("min-replicas-max-lag", 10)
  end

  describe "with the rights that the documents name" do
    before do
      rights = Support::Documents.acl.drop(5)
      @group.servers.each do |one|
        one.call("ACL", "SETUSER", "few", "reset", "on", ">pw", *rights, "+role")
      end
    end

    let(:url) { @group.url(user: "few:pw") }

    it "says that it cannot know whether a primary that is cut off goes on" do
      expect(finding(url)).to include(
        "level" => "unknown", "message" => /\Amin-replicas-to-write could not be asked/
      )
    end

    it "still names a sentinel that does not answer" do
      expect(finding(url.sub("@", "@127.0.0.1:1,"))).to include(
        "level" => "advice", "message" => /127\.0\.0\.1:1 did not answer/
      )
    end

    it "knows that replicas which confirm each lock are enough" do
      @group.servers.each { |one| one.call("ACL", "SETUSER", "few", "+wait") }
      expect(finding("#{url}?replicas=2")).to include("level" => "fine")
    end
  end

  # The killed replica confirms nothing, but the sentinels still know it. They may promote it after
  # it has returned, so it counts as a danger.
  it "warns of a replica that the sentinels know, and that confirms nothing" do
    @group.servers.last.kill
    eventually(10.0) do
      found = finding("#{@group.url}?replicas=1", "replication")
      found["level"] == "danger" && found["message"].match?(/1 of 2 confirm a lock/)
    end
  ensure
    @group.servers.last.restart
  end

  it "names a sentinel of the URL that does not answer" do
    refuse_writes_without_replicas
    url = @group.url.sub("://", "://127.0.0.1:1,")
    expect(finding(url)).to include(
      "level" => "advice", "message" => /127\.0\.0\.1:1 did not answer/
    )
  ensure
    refuse_writes_without_replicas(0)
  end

  it "warns of too few sentinels for a failover" do
    @group.sentinels.last(2).each(&:stop_process)
    eventually(10.0) { finding["message"].include?("too few sentinels") }
  ensure
    @group.sentinels.last(2).each(&:continue_process)
  end

  it "says that the primary has replicas, or that sentinels name it" do
    eventually(10.0) { finding(@group.url, "role")["message"] == "a primary of 2 replicas" }
    @group.servers.reject { |one| one == @group.primary }.each(&:stop_process)
    @group.primary.call("CLIENT", "KILL", "TYPE", "replica")
    eventually(10.0) { finding(@group.url, "role")["message"] == "a primary that sentinels name" }
  ensure
    @group.servers.each(&:continue_process)
  end

  it "warns of sentinels that name different primaries" do
    servers = Array.new(2) { redis_server }
    places = servers.map do |server|
      monitor = ["main", "127.0.0.1", server.port.to_s, "1"]
      "127.0.0.1:#{redis_server(:sentinel, monitor: monitor).port}"
    end
    named = servers.map { |server| "127.0.0.1:#{server.port}" }.join(", ")
    expect(finding("redis+sentinel://#{places.join(",")}/main")).to include(
      "level" => "danger", "message" => "the sentinels name different primaries: #{named}",
      "remedy" => /SENTINEL RESET/
    )
  end

  # With min-replicas-to-write, a primary without replicas would refuse every lock.
  it "does not recommend min-replicas-to-write for a primary without replicas" do
    monitor = ["alone", "127.0.0.1", redis_server.port.to_s, "1"]
    url = "redis+sentinel://127.0.0.1:#{redis_server(:sentinel, monitor: monitor).port}/alone"
    expect(finding(url)).to include(
      "level" => "advice", "message" => /no replica/, "remedy" => /\Aadd a replica.*then CONFIG SET/
    )
  end

  it "says that replicas must be in touch before min-replicas-to-write is set" do
    replicas = @group.servers.reject { |one| one == @group.primary }
    replicas.each(&:stop_process)
    @group.primary.call("CLIENT", "KILL", "TYPE", "replica")
    eventually(10.0) { finding["remedy"].to_s.match?(/\Astart its replicas.*then CONFIG SET/) }
    expect(finding["level"]).to eq("danger")
  ensure
    replicas.each(&:continue_process)
    eventually(10.0) { finding(@group.url, "role")["message"] == "a primary of 2 replicas" }
  end

  # In the URL, a number after the sentinels is the primary's name, not a database.
  it "asks for the primary by its name, whatever that is" do
    monitor = ["5", "127.0.0.1", redis_server.port.to_s, "1"]
    url = "redis+sentinel://127.0.0.1:#{redis_server(:sentinel, monitor: monitor).port}/5"
    [url, "#{url}/0"].each do |one|
      expect(finding(one)).to include("level" => "advice", "message" => /no replica/)
    end
  end

  it "says that no TLS is needed where sentinels and primary are on this host" do
    expect(finding(@group.url, "tls")).to include("level" => "fine", "message" => /none needed/)
  end

  it "has nothing to say about a store without sentinels" do
    expect(finding(@group.primary.url)).to include("level" => "fine", "message" => /none needed/)
  end
end
